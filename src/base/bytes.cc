// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <sodium.h>

#include "base/check.h"

namespace atl {
namespace {

std::string encode64(std::string_view raw, int variant) {
  std::string text(sodium_base64_encoded_len(raw.size(), variant), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(raw.data()), raw.size(),
                    variant);
  text.pop_back();  // the terminating NUL that libsodium counts
  return text;
}

std::optional<std::string> decode64(std::string_view text, int variant) {
  std::string raw(text.size() / 4 * 3 + 3, '\0');
  std::size_t length = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(raw.data()), raw.size(), text.data(), text.size(),
                        nullptr, &length, nullptr, variant) != 0) {
    return std::nullopt;
  }
  raw.resize(length);
  return raw;
}

}  // namespace

std::string hex_encode(std::string_view raw) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(raw.size() * 2);
  for (char c : raw) {
    auto byte = static_cast<unsigned char>(c);
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

std::optional<std::string> hex_decode(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string raw(text.size() / 2, '\0');
  std::size_t length = 0;
  if (sodium_hex2bin(reinterpret_cast<unsigned char*>(raw.data()), raw.size(), text.data(), text.size(),
                     nullptr, &length, nullptr) != 0 ||
      length != raw.size()) {
    return std::nullopt;
  }
  return raw;
}

std::string base64_encode(std::string_view raw, Padding padding) {
  return encode64(raw, padding == Padding::kEquals ? sodium_base64_VARIANT_ORIGINAL
                                                   : sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
}

std::optional<std::string> base64_decode(std::string_view text) {
  bool padded = !text.empty() && text.back() == '=';
  return decode64(text, padded || text.size() % 4 == 0 ? sodium_base64_VARIANT_ORIGINAL
                                                       : sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
}

std::string base64url_encode(std::string_view raw) {
  return encode64(raw, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

std::optional<std::string> base64url_decode(std::string_view text) {
  return decode64(text, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

std::string sha256(std::string_view data) {
  std::string digest(crypto_hash_sha256_BYTES, '\0');
  crypto_hash_sha256(reinterpret_cast<unsigned char*>(digest.data()),
                     reinterpret_cast<const unsigned char*>(data.data()), data.size());
  return digest;
}

bool constant_time_equal(std::string_view a, std::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool valid_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    auto lead = static_cast<unsigned char>(text[i]);
    std::size_t length = lead < 0x80                   ? 1
                         : lead >= 0xc2 && lead < 0xe0 ? 2
                         : lead >= 0xe0 && lead < 0xf0 ? 3
                         : lead >= 0xf0 && lead < 0xf5 ? 4
                                                       : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    auto second = length > 1 ? static_cast<unsigned char>(text[i + 1]) : 0x80;
    // Overlong forms, surrogates, and code points beyond U+10FFFF (RFC 3629).
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) {
      return false;
    }
    i += length;
  }
  return true;
}

}  // namespace atl
