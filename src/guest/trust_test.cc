// SPDX-License-Identifier: Apache-2.0
#include "guest/trust.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/random.h"
#include "guest/posix.h"

namespace atl::guest {
namespace {

using testing::HasSubstr;
using testing::Not;

Authority authority(const std::string& body) {
  return {"-----BEGIN CERTIFICATE-----\n" + body + "\n-----END CERTIFICATE-----\n", "0123abcd"};
}

class TrustTest : public testing::Test {
 protected:
  TrustTest() { std::filesystem::create_directories(root + "/etc/ssl/certs"); }
  ~TrustTest() override { std::filesystem::remove_all(root); }
  std::string read(const std::string& path) { return read_small_file(root + path, 1 << 20).value_or("?"); }
  const std::string root =
      (std::filesystem::temp_directory_path() / ("atoll-trust-" + random_hex(8))).string();
  const std::string bundle = "/etc/ssl/certs/ca-certificates.crt";
};

TEST_F(TrustTest, AddsItselfToTheBundleOnce) {
  ASSERT_TRUE(write_small_file(root + bundle, "PUBLIC ROOTS", 0644).ok());
  ASSERT_TRUE(install_authority(root, authority("one")).ok());
  std::string first = read(bundle);
  EXPECT_THAT(first, testing::StartsWith("PUBLIC ROOTS\n"));
  EXPECT_THAT(first, HasSubstr("one"));
  ASSERT_TRUE(install_authority(root, authority("one")).ok());
  EXPECT_EQ(read(bundle), first);
  ASSERT_TRUE(install_authority(root, authority("two")).ok());
  EXPECT_THAT(read(bundle), HasSubstr("two"));
  EXPECT_THAT(read(bundle), Not(HasSubstr("one")));
  EXPECT_EQ(read("/etc/ssl/certs/0123abcd.0"), authority("two").pem);
  EXPECT_EQ(read("/usr/local/share/ca-certificates/atoll.crt"), authority("two").pem);
}

TEST_F(TrustTest, JavaTrustsItWhereThereIsAJava) {
  const std::string java = "/etc/ssl/certs/java/cacerts";
  ASSERT_TRUE(install_authority(root, authority("QUJD")).ok());
  EXPECT_EQ(read(java), "?");
  std::filesystem::create_directories(root + "/etc/ssl/certs/java");
  std::string empty("\xfe\xed\xfe\xed\0\0\0\2\0\0\0\0", 12);
  ASSERT_TRUE(write_small_file(root + java, empty + std::string(20, 'x'), 0644).ok());
  ASSERT_TRUE(install_authority(root, authority("QUJE")).ok());
  EXPECT_THAT(read(java), HasSubstr(std::string("\0\0\0\3ABD", 7)));
  ASSERT_TRUE(write_small_file(root + java, "of another format", 0644).ok());
  ASSERT_TRUE(install_authority(root, authority("QUJF")).ok());
  EXPECT_EQ(read(java), "of another format");
}

TEST_F(TrustTest, NoAuthorityChangesNothing) {
  ASSERT_TRUE(install_authority(root, {}).ok());
  EXPECT_EQ(read(bundle), "?");
}

TEST_F(TrustTest, WhatIsNoCertificateIsRefused) {
  EXPECT_TRUE(check_authority({}).ok());
  EXPECT_TRUE(check_authority(authority("x")).ok());
  EXPECT_FALSE(check_authority({authority("x").pem, "../../ab"}).ok());
  EXPECT_FALSE(check_authority({"hello", "0123abcd"}).ok());
}

TEST_F(TrustTest, VariablesOfTheUserStay) {
  std::map<std::string, std::string> environment{{"SSL_CERT_FILE", "/mine"}};
  add_trust_variables(environment);
  EXPECT_EQ(environment["SSL_CERT_FILE"], "/mine");
  EXPECT_EQ(environment["REQUESTS_CA_BUNDLE"], bundle);
}

}  // namespace
}  // namespace atl::guest
