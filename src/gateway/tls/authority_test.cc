// SPDX-License-Identifier: Apache-2.0
#include "gateway/tls/authority.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>

namespace atl::gateway {
namespace {

constexpr WallTime kNow{1'790'000'000'000};
const std::string kRoot(32, 'r');

std::shared_ptr<CertificateAuthority> authority(const std::string& sandbox = "sbx1",
                                                const std::string& root = kRoot, WallTime now = kNow) {
  auto made = CertificateAuthority::derive(root, sandbox, now);
  EXPECT_TRUE(made.ok()) << made.error().message();
  return *made;
}

using StorePtr = std::unique_ptr<X509_STORE, net::OpensslFree<X509_STORE_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, net::OpensslFree<X509_STORE_CTX_free>>;

// What a strict client would say of `leaf` for `host`: X509_V_OK or why not.
int judge(const std::string& trusted_pem, X509* leaf, const std::string& host, WallTime at = kNow) {
  auto trusted = net::read_certificate(trusted_pem);
  EXPECT_TRUE(trusted.ok());
  StorePtr store(X509_STORE_new());
  X509_STORE_add_cert(store.get(), trusted->get());
  StoreContextPtr context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), leaf, nullptr);
  auto* param = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_X509_STRICT);
  X509_VERIFY_PARAM_set_purpose(param, X509_PURPOSE_SSL_SERVER);
  X509_VERIFY_PARAM_set_time(param, at.ms / 1000);
  if (X509_VERIFY_PARAM_set1_ip_asc(param, host.c_str()) != 1) {
    X509_VERIFY_PARAM_set1_host(param, host.c_str(), host.size());
  }
  ERR_clear_error();
  X509_verify_cert(context.get());
  return X509_STORE_CTX_get_error(context.get());
}

int judge_own(const std::string& host) {
  auto ours = authority();
  auto leaf = ours->leaf(host, kNow);
  if (!leaf.ok()) return -1;
  return judge(ours->certificate_pem(), leaf->certificate.get(), host);
}

TEST(Authority, SignsLeavesThatAStrictClientAccepts) {
  for (auto host :
       {"api.example.com", "a_b.example.com", "xn--bcher-kva.example", "192.0.2.7", "2001:db8::1"}) {
    EXPECT_EQ(judge_own(host), X509_V_OK) << host;
  }
  // RFC 5280 allows 64 characters in a common name; the rest is in the alternative names.
  EXPECT_EQ(judge_own(std::string(63, 'a') + "." + std::string(63, 'b') + ".example"), X509_V_OK);
}

TEST(Authority, TakesAddressesInBrackets) {
  auto ours = authority();
  auto leaf = ours->leaf("[2001:db8::1]", kNow);
  ASSERT_TRUE(leaf.ok());
  EXPECT_EQ(judge(ours->certificate_pem(), leaf->certificate.get(), "2001:db8::1"), X509_V_OK);
}

TEST(Authority, CannotSpeakForTheSandboxItself) {
  for (auto host : {"localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"}) {
    EXPECT_EQ(judge_own(host), X509_V_ERR_EXCLUDED_VIOLATION) << host;
  }
}

TEST(Authority, RefusesWhatIsNoName) {
  for (auto host : {"", "a b", "a,DNS:evil", "UPPER.example", "a..b", ".a", "a.", "*.a", "a\nb", "a/b"}) {
    auto leaf = authority()->leaf(host, kNow);
    ASSERT_FALSE(leaf.ok()) << host;
    EXPECT_EQ(leaf.error().code(), Code::kInvalid);
  }
  EXPECT_FALSE(authority()->leaf(std::string("a\0b", 3), kNow).ok());
  EXPECT_FALSE(authority()->leaf(std::string(254, 'a'), kNow).ok());
}

TEST(Authority, IsTheSameAfterARestartAndAnotherForEachSandboxAndInstallation) {
  auto before = authority("sbx1");
  auto after = authority("sbx1", kRoot, kNow + std::chrono::hours(240));
  auto leaf = after->leaf("api.example.com", kNow + std::chrono::hours(240));
  ASSERT_TRUE(leaf.ok());
  auto at = kNow + std::chrono::hours(240);
  EXPECT_EQ(judge(before->certificate_pem(), leaf->certificate.get(), "api.example.com", at), X509_V_OK);
  EXPECT_NE(judge(authority("sbx2")->certificate_pem(), leaf->certificate.get(), "api.example.com", at),
            X509_V_OK);
  auto elsewhere = authority("sbx1", std::string(32, 'q'));
  EXPECT_NE(judge(elsewhere->certificate_pem(), leaf->certificate.get(), "api.example.com", at), X509_V_OK);
}

TEST(Authority, ItsCertificateSaysWhatItMayDo) {
  auto read = net::read_certificate(authority()->certificate_pem());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(X509_check_ca(read->get()), 1);
  EXPECT_EQ(X509_get_pathlen(read->get()), 0);
  EXPECT_EQ(X509_get_key_usage(read->get()), static_cast<std::uint32_t>(KU_KEY_CERT_SIGN));
  EXPECT_EQ(X509_get_extended_key_usage(read->get()), static_cast<std::uint32_t>(XKU_SSL_SERVER));
}

TEST(Authority, OneKeySignsForAllHostsAndIsNotTheAuthoritysOwn) {
  auto ours = authority();
  auto a = ours->leaf("a.example", kNow);
  auto b = ours->leaf("b.example", kNow);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->key, b->key);
  auto own = net::read_certificate(ours->certificate_pem());
  EXPECT_NE(EVP_PKEY_eq(X509_get0_pubkey(own->get()), a->key.get()), 1);
}

TEST(Authority, KeepsABoundedNumberOfLeavesAndTheLatestOnes) {
  auto ours = authority();
  auto first = ours->leaf("kept.example", kNow);
  ASSERT_TRUE(first.ok());
  for (std::size_t i = 0; i < 2 * LeafCache::kMaxLeaves; ++i) {
    ASSERT_TRUE(ours->leaf(fmt::format("h{}.example", i), kNow).ok());
    EXPECT_EQ(ours->leaf("kept.example", kNow)->certificate, first->certificate);
  }
  EXPECT_EQ(ours->cached(), LeafCache::kMaxLeaves);
}

TEST(Authority, SignsAnewBeforeALeafEnds) {
  auto ours = authority();
  auto first = ours->leaf("a.example", kNow);
  auto late = kNow + CertificateAuthority::kLeafLife - std::chrono::minutes(30);
  auto second = ours->leaf("a.example", late);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->certificate, second->certificate);
  EXPECT_EQ(judge(ours->certificate_pem(), second->certificate.get(), "a.example", late), X509_V_OK);
  EXPECT_EQ(ours->cached(), 1U);
}

}  // namespace
}  // namespace atl::gateway
