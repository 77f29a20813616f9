// SPDX-License-Identifier: Apache-2.0
#include "guest/java_store.h"

#include <array>
#include <bit>

#include "base/bytes.h"

namespace atl::guest {
namespace {

constexpr std::uint32_t kMagic = 0xfeedfeed, kVersion = 2, kTrusted = 2;
constexpr std::size_t kDigest = 20;
constexpr std::size_t kHead = 12;
constexpr std::string_view kAlias = "atoll-gateway";

// SHA-1 (FIPS 180-4), because the format has it; nothing is secured by it.
class Sha1 {
 public:
  static std::string of(std::string text) {
    std::uint64_t bits = text.size() * 8;
    text += '\x80';
    while (text.size() % 64 != 56) text += '\0';
    for (int shift = 56; shift >= 0; shift -= 8) text += static_cast<char>(bits >> shift);
    Sha1 hash;
    for (std::size_t at = 0; at < text.size(); at += 64) hash.mix(std::string_view(text).substr(at, 64));
    std::string out;
    for (std::uint32_t word : hash.state_) {
      for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(word >> shift);
    }
    return out;
  }

 private:
  void mix(std::string_view block) {
    std::array<std::uint32_t, 80> w{};
    for (std::size_t i = 0; i < 16; ++i) {
      for (std::size_t k = 0; k < 4; ++k) w[i] = w[i] << 8 | static_cast<unsigned char>(block[i * 4 + k]);
    }
    for (std::size_t i = 16; i < w.size(); ++i)
      w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    auto [a, b, c, d, e] = state_;
    for (std::size_t i = 0; i < w.size(); ++i) {
      std::uint32_t f = b ^ c ^ d, k = i < 40 ? 0x6ed9eba1 : 0xca62c1d6;
      if (i < 20) {
        f = (b & c) | (~b & d);
        k = 0x5a827999;
      } else if (i >= 40 && i < 60) {
        f = (b & c) | (b & d) | (c & d);
        k = 0x8f1bbcdc;
      }
      std::uint32_t next = std::rotl(a, 5) + f + e + k + w[i];
      e = d;
      d = c;
      c = std::rotl(b, 30);
      b = a;
      a = next;
    }
    const std::array<std::uint32_t, 5> added{a, b, c, d, e};
    for (std::size_t i = 0; i < state_.size(); ++i) state_[i] += added[i];
  }

  std::array<std::uint32_t, 5> state_{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
};

void put_number(std::string& out, std::uint64_t value, int bytes) {
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

void put_text(std::string& out, std::string_view text) {
  put_number(out, text.size(), 2);
  out += text;
}

// Takes from the front of a store; `broken` once there was too little.
struct Reader {
  std::string_view rest;
  bool broken = false;

  std::string_view bytes(std::size_t count) {
    if (broken || count > rest.size()) {
      broken = true;
      return {};
    }
    auto out = rest.substr(0, count);
    rest.remove_prefix(count);
    return out;
  }
  std::uint32_t number(std::size_t size) {
    std::uint32_t out = 0;
    for (char c : bytes(size)) out = out << 8 | static_cast<unsigned char>(c);
    return out;
  }
};

Result<std::string> der_of(std::string_view pem) {
  constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----", kEnd = "-----END CERTIFICATE-----";
  std::size_t begin = pem.find(kBegin), end = pem.find(kEnd);
  std::string text;
  if (begin != pem.npos && end != pem.npos && end > begin) {
    for (char c : pem.substr(begin + kBegin.size(), end - begin - kBegin.size())) {
      if (c != '\n' && c != '\r') text += c;
    }
  }
  auto der = base64_decode(text);
  if (!der || der->empty()) return make_error(Code::kInvalid, "the certificate is not in PEM");
  return *std::move(der);
}

Error foreign(std::string_view why) {
  return make_error(Code::kUnsupported, "Java's key store is not changed: {}", why);
}

// Java's own keyed hash: of the word in UTF-16, a fixed phrase and the store.
std::string digest_of(std::string_view store) {
  std::string text;
  for (char c : kJavaPassword) text += std::string{'\0', c};
  text += "Mighty Aphrodite";
  text += store;
  return Sha1::of(std::move(text));
}

}  // namespace

Result<std::string> with_trusted(std::string_view store, std::string_view pem, std::int64_t unix_ms) {
  TRY(std::string der, der_of(pem));
  if (store.size() < kHead + kDigest) return foreign("it is too short");
  Reader in{store.substr(0, store.size() - kDigest)};
  if (in.number(4) != kMagic || in.number(4) != kVersion) return foreign("it is not in the format JKS");
  std::uint32_t count = in.number(4), kept = 0;
  std::string entries;
  for (std::uint32_t i = 0; i < count && !in.broken; ++i) {
    std::string_view whole = in.rest;
    if (in.number(4) != kTrusted) return foreign("it holds private keys");
    std::string_view alias = in.bytes(in.number(2));
    in.bytes(8);             // when it was put in
    in.bytes(in.number(2));  // "X.509"
    in.bytes(in.number(4));  // the certificate
    if (alias == kAlias) continue;
    entries += whole.substr(0, whole.size() - in.rest.size());
    ++kept;
  }
  if (in.broken || !in.rest.empty()) return foreign("it is damaged");
  std::string out;
  put_number(out, kMagic, 4);
  put_number(out, kVersion, 4);
  put_number(out, kept + 1, 4);
  out += entries;
  put_number(out, kTrusted, 4);
  put_text(out, kAlias);
  put_number(out, static_cast<std::uint64_t>(unix_ms), 8);
  put_text(out, "X.509");
  put_number(out, der.size(), 4);
  out += der;
  return out + digest_of(out);
}

}  // namespace atl::guest
