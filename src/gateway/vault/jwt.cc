// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/jwt.h"

#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/hmac.h>

#include <array>

#include "base/bytes.h"
#include "gateway/vault/locked.h"
#include "net/tls/openssl.h"

namespace atl::gateway::vault {
namespace {

using net::openssl_error;
using net::OpensslFree;
using SignaturePtr = std::unique_ptr<ECDSA_SIG, OpensslFree<ECDSA_SIG_free>>;
using DigestPtr = std::unique_ptr<EVP_MD_CTX, OpensslFree<EVP_MD_CTX_free>>;

constexpr int kEs256Half = 32;
constexpr int kMinRsaBits = 2048;

const unsigned char* raw(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// The two numbers side by side, as RFC 7518 §3.4 wants them, and not in DER.
Result<std::string> es256_form(const std::string& der) {
  const auto* at = raw(der);
  SignaturePtr signature(d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size())));
  std::string out(2 * kEs256Half, '\0');
  auto* bytes = reinterpret_cast<unsigned char*>(out.data());
  bool ok = signature && BN_bn2binpad(ECDSA_SIG_get0_r(signature.get()), bytes, kEs256Half) == kEs256Half &&
            BN_bn2binpad(ECDSA_SIG_get0_s(signature.get()), bytes + kEs256Half, kEs256Half) == kEs256Half;
  if (!ok) return openssl_error(Code::kInternal, "write a signature");
  return out;
}

bool fits(EVP_PKEY* key, std::string_view algorithm) {
  if (algorithm == "RS256") return EVP_PKEY_is_a(key, "RSA") == 1 && EVP_PKEY_get_bits(key) >= kMinRsaBits;
  if (algorithm == "EdDSA") return EVP_PKEY_is_a(key, "ED25519") == 1;
  std::array<char, 32> group{};
  return algorithm == "ES256" && EVP_PKEY_is_a(key, "EC") == 1 &&
         EVP_PKEY_get_group_name(key, group.data(), group.size(), nullptr) == 1 &&
         std::string_view(group.data()) == "prime256v1";
}

Result<std::string> sign_with_key(std::string_view algorithm, std::string_view text, std::string_view pem) {
  std::string copy(pem);
  auto key = net::read_private_key(copy);
  wipe(copy);
  if (!key.ok()) return std::move(key).error();
  if (!fits(key->get(), algorithm)) {
    return make_error(Code::kInvalid, "the private key is not of the kind that {} needs", algorithm);
  }
  DigestPtr digest(EVP_MD_CTX_new());
  const EVP_MD* hash = algorithm == "EdDSA" ? nullptr : EVP_sha256();
  std::size_t size = 0;
  bool ok = digest && EVP_DigestSignInit(digest.get(), nullptr, hash, nullptr, key->get()) == 1 &&
            EVP_DigestSign(digest.get(), nullptr, &size, raw(text), text.size()) == 1;
  std::string out(size, '\0');
  ok = ok && EVP_DigestSign(digest.get(), reinterpret_cast<unsigned char*>(out.data()), &size, raw(text),
                            text.size()) == 1;
  if (!ok) return openssl_error(Code::kInternal, "sign a token");
  out.resize(size);
  if (algorithm == "ES256") return es256_form(out);
  return out;
}

std::string hs256(std::string_view text, std::string_view key) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), raw(text), text.size(), out.data(), &size);
  return {reinterpret_cast<char*>(out.data()), size};
}

}  // namespace

Result<Secret> sign_jwt(const JwtHeader& header, const boost::json::object& claims, std::string_view key) {
  boost::json::object head{{"alg", header.algorithm}, {"typ", "JWT"}};
  if (!header.key_id.empty()) head["kid"] = header.key_id;
  auto text = fmt::format("{}.{}", base64url_encode(boost::json::serialize(head)),
                          base64url_encode(boost::json::serialize(claims)));
  std::string signature;
  if (header.algorithm == "HS256") {
    signature = hs256(text, key);
  } else {
    TRY(signature, sign_with_key(header.algorithm, text, key));
  }
  return Secret(fmt::format("{}.{}", text, base64url_encode(signature)));
}

}  // namespace atl::gateway::vault
