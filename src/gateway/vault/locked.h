// SPDX-License-Identifier: Apache-2.0
//
// Locked: secret bytes that stay in memory for long. base/secret.h is for those that pass through: its text
// is a std::string, which may be swapped out, written into a core file and copied by accident.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace atl::gateway::vault {

// Bytes on pages of their own, with guard pages around them, locked where the limit of the process allows it,
// left out of core files, wiped when they go. Cannot be copied or printed. Each costs a page and some system
// calls, so make few.
class Locked {
 public:
  Locked() = default;
  explicit Locked(std::size_t size);  // zeroes, to be filled through bytes()
  static Locked copy_of(std::string_view text);
  static Locked take(std::string& text);  // wipes `text`
  Locked(Locked&& other) noexcept;
  Locked& operator=(Locked&& other) noexcept;
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked();

  // The one way to the bytes; greppable on purpose.
  std::string_view reveal() const { return {static_cast<const char*>(data_), size_}; }
  std::span<unsigned char> bytes() { return {static_cast<unsigned char*>(data_), size_}; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool matches(std::string_view candidate) const;  // constant time

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// Overwrites the text, also what it had room for, and empties it.
void wipe(std::string& text);

}  // namespace atl::gateway::vault
