// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/jwt.h"

#include <gtest/gtest.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "base/bytes.h"
#include "base/text.h"
#include "net/tls/openssl.h"

namespace atl::gateway::vault {
namespace {

net::KeyPtr make_key(const char* kind) {
  if (std::string_view(kind) == "RSA") return net::KeyPtr(EVP_RSA_gen(2048));
  if (std::string_view(kind) == "RSA1024") return net::KeyPtr(EVP_RSA_gen(1024));
  if (std::string_view(kind) == "P-384") return net::KeyPtr(EVP_EC_gen("P-384"));
  if (std::string_view(kind) == "P-256") return net::KeyPtr(EVP_EC_gen("P-256"));
  return net::KeyPtr(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
}

std::string pem_of(EVP_PKEY* key) {
  net::BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  char* data = nullptr;
  auto size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

// The signature as OpenSSL reads it: of ES256 the two numbers in DER.
std::string der_of(std::string_view pair) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(pair.data());
  std::unique_ptr<ECDSA_SIG, net::OpensslFree<ECDSA_SIG_free>> signature(ECDSA_SIG_new());
  ECDSA_SIG_set0(signature.get(), BN_bin2bn(bytes, 32, nullptr), BN_bin2bn(bytes + 32, 32, nullptr));
  unsigned char* out = nullptr;
  int size = i2d_ECDSA_SIG(signature.get(), &out);
  std::string text(reinterpret_cast<char*>(out), static_cast<std::size_t>(size));
  OPENSSL_free(out);
  return text;
}

bool verifies(EVP_PKEY* key, const std::string& algorithm, std::string_view token) {
  auto dot = token.rfind('.');
  auto text = token.substr(0, dot);
  auto signature = base64url_decode(token.substr(dot + 1));
  if (!signature || (algorithm == "ES256" && signature->size() != 64)) return false;
  auto form = algorithm == "ES256" ? der_of(*signature) : *signature;
  std::unique_ptr<EVP_MD_CTX, net::OpensslFree<EVP_MD_CTX_free>> digest(EVP_MD_CTX_new());
  EVP_DigestVerifyInit(digest.get(), nullptr, algorithm == "EdDSA" ? nullptr : EVP_sha256(), nullptr, key);
  return EVP_DigestVerify(digest.get(), reinterpret_cast<const unsigned char*>(form.data()), form.size(),
                          reinterpret_cast<const unsigned char*>(text.data()), text.size()) == 1;
}

TEST(Jwt, EachAlgorithmVerifiesWithItsPublicKey) {
  for (auto [kind, algorithm] :
       {std::pair("RSA", "RS256"), std::pair("P-256", "ES256"), std::pair("Ed25519", "EdDSA")}) {
    auto key = make_key(kind);
    auto token = sign_jwt({algorithm, "k"}, {{"iss", "a"}}, pem_of(key.get()));
    ASSERT_TRUE(token.ok()) << token.error().message();
    EXPECT_TRUE(verifies(key.get(), algorithm, token->reveal())) << algorithm;
    auto changed = token->reveal();
    changed[changed.find('.') + 2] ^= 1;
    EXPECT_FALSE(verifies(key.get(), algorithm, changed)) << algorithm;
  }
}

TEST(Jwt, Hs256GivesTheKnownSignature) {
  // The example of jwt.io, whose key is this text.
  auto token = sign_jwt({"HS256", ""}, {{"sub", "1234567890"}, {"name", "John Doe"}, {"iat", 1516239022}},
                        "your-256-bit-secret");
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(token->reveal(),
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
            "eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ."
            "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c");
}

TEST(Jwt, AKeyOfAnotherKindIsRefusedAndNotShown) {
  for (auto [kind, algorithm] :
       {std::pair("P-256", "RS256"), std::pair("RSA", "ES256"), std::pair("P-384", "ES256"),
        std::pair("RSA1024", "RS256"), std::pair("RSA", "EdDSA")}) {
    auto pem = pem_of(make_key(kind).get());
    auto token = sign_jwt({algorithm, ""}, {}, pem);
    ASSERT_FALSE(token.ok()) << kind << algorithm;
    EXPECT_EQ(token.error().message().find(pem.substr(40, 20)), std::string::npos);
  }
  EXPECT_FALSE(sign_jwt({"RS256", ""}, {}, "no key").ok());
}

}  // namespace
}  // namespace atl::gateway::vault
