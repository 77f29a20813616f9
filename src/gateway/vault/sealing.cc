// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/sealing.h"

#include <sodium.h>

#include "base/bytes.h"
#include "base/check.h"

namespace atl::gateway::vault {
namespace {

constexpr std::size_t kNonce = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr std::size_t kTag = crypto_aead_xchacha20poly1305_ietf_ABYTES;
static_assert(kKeyBytes == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);

const unsigned char* raw(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* raw(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

}  // namespace

std::string place(std::initializer_list<std::string_view> parts) {
  std::string out = "atoll vault 1";
  for (auto part : parts) out += fmt::format(" {}:{}", part.size(), part);
  return out;
}

std::string seal(const Locked& key, std::string_view place, std::string_view secret) {
  CHECK(key.size() == kKeyBytes, "a key has {} bytes", kKeyBytes);
  std::string out(kNonce + secret.size() + kTag, '\0');
  randombytes_buf(out.data(), kNonce);
  crypto_aead_xchacha20poly1305_ietf_encrypt(raw(out) + kNonce, nullptr, raw(secret), secret.size(),
                                             raw(place), place.size(), nullptr, raw(out), raw(key.reveal()));
  return out;
}

Result<Locked> unseal(const Locked& key, std::string_view place, std::string_view sealed) {
  CHECK(key.size() == kKeyBytes, "a key has {} bytes", kKeyBytes);
  if (sealed.size() < kNonce + kTag) return make_error(Code::kCorrupt, "a sealed value is cut short");
  Locked out(sealed.size() - kNonce - kTag);
  int bad = crypto_aead_xchacha20poly1305_ietf_decrypt(
      out.bytes().data(), nullptr, nullptr, raw(sealed.substr(kNonce)), sealed.size() - kNonce, raw(place),
      place.size(), raw(sealed), raw(key.reveal()));
  if (bad != 0) {
    return make_error(Code::kCorrupt,
                      "a sealed value does not open: it was changed, moved from another row, or "
                      "sealed with another key");
  }
  return out;
}

Locked subkey(const Locked& key, std::string_view purpose) {
  Locked out(kKeyBytes);
  crypto_generichash(out.bytes().data(), out.size(), raw(purpose), purpose.size(), raw(key.reveal()),
                     key.size());
  return out;
}

std::string fingerprint(const Locked& key) {
  return hex_encode(subkey(key, "atoll key fingerprint").reveal().substr(0, 8));
}

}  // namespace atl::gateway::vault
