// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <sys/random.h>

#include <cerrno>

#include "base/bytes.h"
#include "base/check.h"

namespace atl {

void random_bytes(std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    ssize_t got = getrandom(out.data() + done, out.size() - done, 0);
    if (got < 0 && errno == EINTR) continue;
    CHECK(got > 0, "getrandom gave no bytes (errno {})", errno);
    done += static_cast<std::size_t>(got);
  }
}

std::array<std::uint8_t, 32> random_key() {
  std::array<std::uint8_t, 32> key;
  random_bytes(key);
  return key;
}

std::string random_hex(std::size_t bytes) {
  std::string raw(bytes, '\0');
  random_bytes({reinterpret_cast<std::uint8_t*>(raw.data()), raw.size()});
  return hex_encode(raw);
}

std::string random_base36(std::size_t length) {
  static constexpr char kAlphabet[] = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string text;
  while (text.size() < length) {
    std::array<std::uint8_t, 32> raw = random_key();
    for (std::uint8_t byte : raw) {
      // 252 is the largest multiple of 36 in a byte: rejecting the rest keeps the draw even.
      if (byte < 252 && text.size() < length) text.push_back(kAlphabet[byte % 36]);
    }
  }
  return text;
}

std::string random_uuid() {
  std::array<std::uint8_t, 16> raw;
  random_bytes(raw);
  raw[6] = static_cast<std::uint8_t>((raw[6] & 0x0f) | 0x40);
  raw[8] = static_cast<std::uint8_t>((raw[8] & 0x3f) | 0x80);
  std::string hex = hex_encode({reinterpret_cast<const char*>(raw.data()), raw.size()});
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" +
         hex.substr(20);
}

}  // namespace atl
