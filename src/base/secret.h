// SPDX-License-Identifier: Apache-2.0
//
// Secret: text that cannot be printed, logged or compared in a way that leaks. It is wiped when it goes away.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace atl {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}
  Secret(const Secret&) = default;
  Secret(Secret&& other) noexcept : value_(std::move(other.value_)) { other.wipe(); }
  Secret& operator=(const Secret&) = default;
  Secret& operator=(Secret&& other) noexcept {
    if (this == &other) return *this;
    wipe();
    value_ = std::move(other.value_);
    other.wipe();
    return *this;
  }
  ~Secret() { wipe(); }

  // The one way to the text; greppable on purpose.
  const std::string& reveal() const { return value_; }
  bool empty() const { return value_.empty(); }
  bool matches(std::string_view candidate) const;  // constant time

 private:
  void wipe();
  std::string value_;
};

}  // namespace atl
