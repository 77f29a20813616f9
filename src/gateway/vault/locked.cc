// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/locked.h"

#include <sodium.h>

#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"

namespace atl::gateway::vault {

Locked::Locked(std::size_t size) : size_(size) {
  static const int kReady = sodium_init();
  CHECK(kReady >= 0, "libsodium cannot start");
  if (size == 0) return;
  data_ = sodium_malloc(size);
  CHECK(data_ != nullptr, "out of memory for secrets");
  std::memset(data_, 0, size);
}

Locked Locked::copy_of(std::string_view text) {
  Locked out(text.size());
  if (!text.empty()) std::memcpy(out.data_, text.data(), text.size());
  return out;
}

Locked Locked::take(std::string& text) {
  Locked out = copy_of(text);
  wipe(text);
  return out;
}

Locked::Locked(Locked&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Locked& Locked::operator=(Locked&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Locked::~Locked() { sodium_free(data_); }  // wipes first

bool Locked::matches(std::string_view candidate) const { return constant_time_equal(reveal(), candidate); }

void wipe(std::string& text) {
  text.resize(text.capacity());
  sodium_memzero(text.data(), text.size());
  text.clear();
}

}  // namespace atl::gateway::vault
