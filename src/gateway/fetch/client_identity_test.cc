// SPDX-License-Identifier: Apache-2.0
#include "gateway/fetch/client_identity.h"

#include <gtest/gtest.h>

#include "gateway/vault/credential_for_test.h"
#include "net/tls/tls.h"

namespace atl::gateway {
namespace {

vault::CredentialPtr credential(const std::string& chain, const std::string& key) {
  return vault::credential({{"type", "tls_client"}, {"certificate_chain", chain}}, key);
}

TEST(ClientIdentity, IsMadeOfAChainAndItsKey) {
  auto authority = *net::make_certificate_authority("a");
  auto identity = *net::make_server_identity(authority, {"client.example"});
  auto chain = identity.certificate_chain + authority.certificate_chain;
  auto made = client_identity(*credential(chain, identity.private_key));
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_NE(*made, nullptr);
}

TEST(ClientIdentity, WhatDoesNotFitIsRefusedAndNotShown) {
  auto authority = *net::make_certificate_authority("a");
  auto identity = *net::make_server_identity(authority, {"client.example"});
  auto part = identity.private_key.substr(40, 24);
  std::string long_chain;
  for (int i = 0; i < 10; ++i) long_chain += authority.certificate_chain;
  for (const auto& one :
       {credential("no pem", identity.private_key), credential(identity.certificate_chain, "no pem"),
        credential(authority.certificate_chain, identity.private_key),
        credential(long_chain, authority.private_key)}) {
    auto made = client_identity(*one);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().word(), "invalid_secret");
    EXPECT_EQ((made.error().message() + made.error().hint()).find(part), std::string::npos);
  }
}

TEST(ClientIdentity, IsOneForEachVersionOfASecret) {
  auto authority = *net::make_certificate_authority("a");
  auto identity = *net::make_server_identity(authority, {"client.example"});
  auto first = credential(identity.certificate_chain, identity.private_key);
  ClientIdentities all;
  auto made = all.of(*first);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(*all.of(*first), *made);
  auto row = first->row;
  ++row.version;
  auto config = vault::parse_config(vault::write_config(first->config));
  vault::Credential next{row, *config, vault::Locked::copy_of(first->secret.reveal())};
  EXPECT_NE(*all.of(next), *made);
}

}  // namespace
}  // namespace atl::gateway
