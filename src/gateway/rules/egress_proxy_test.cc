// SPDX-License-Identifier: Apache-2.0
#include "gateway/rules/egress_proxy.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/random.h"
#include "gateway/policy/e2b.h"
#include "gateway/vault/proxy_password.h"
#include "gateway/vault/sealing.h"

namespace atl::gateway {
namespace {

using Way = policy::ConnectionDecision::Way;

class EgressProxyTest : public ::testing::Test {
 protected:
  EgressProxyTest() : folder_(std::filesystem::temp_directory_path() / ("atoll-proxy-" + random_hex(8))) {
    std::filesystem::create_directories(folder_);
    vault_ = open_vault("vault.db");
  }
  ~EgressProxyTest() override { std::filesystem::remove_all(folder_); }
  std::unique_ptr<vault::Vault> open_vault(const std::string& name) {
    auto key = vault::Locked::copy_of(std::string(vault::kKeyBytes, 'k'));
    return std::move(vault::Vault::open((folder_ / name).string(), key, system_clock())).value();
  }
  static boost::json::object network(const std::string& address, const std::string& user = {},
                                     const std::string& sealed = {}) {
    boost::json::object proxy{{"address", address}, {"username", user}, {"sealedPassword", sealed}};
    return {{"internet", true}, {"proxy", std::move(proxy)}};
  }
  Result<std::shared_ptr<const EgressProxy>> read(const boost::json::object& network,
                                                  std::vector<policy::RuleSet> above = {}) {
    return read_egress_proxy(*vault_, "t", network, std::move(above));
  }
  static Way way_to(const EgressProxy& proxy, const char* address) {
    policy::ConnectionFacts facts{{"s", "t", "b", ""}, proxy.socks->authority, parse_ip(address).value()};
    return proxy.reach->connection(facts).way;
  }

  std::filesystem::path folder_;
  std::unique_ptr<vault::Vault> vault_;
};

TEST_F(EgressProxyTest, IsReadWithItsPassword) {
  EXPECT_EQ(read({{"internet", true}}).value(), nullptr);
  std::string sealed = vault::seal_proxy_password(*vault_, "t", "hunter2");
  EXPECT_EQ(sealed.find("hunter2"), std::string::npos);
  auto proxy = read(network("proxy.example:1080", "me", sealed));
  ASSERT_TRUE(proxy.ok()) << proxy.error().message();
  EXPECT_EQ((*proxy)->socks->authority.text(), "proxy.example:1080");
  EXPECT_EQ((*proxy)->socks->user, "me");
  EXPECT_EQ((*proxy)->socks->password.reveal(), "hunter2");
  EXPECT_TRUE(same_proxy(proxy->get(), proxy->get()));
  EXPECT_FALSE(same_proxy(proxy->get(), nullptr));
  auto other = read(network("proxy.example:1081", "me", sealed));
  EXPECT_FALSE(same_proxy(proxy->get(), other->get()));
}

TEST_F(EgressProxyTest, APasswordOpensForItsTenantInItsVaultOnly) {
  std::string of_other = vault::seal_proxy_password(*vault_, "t2", "hunter2");
  EXPECT_EQ(read(network("p.example:1080", "me", of_other)).error().word(), "proxy_password");
  std::string elsewhere = vault::seal_proxy_password(*open_vault("other.db"), "t", "hunter2");
  EXPECT_EQ(read(network("p.example:1080", "me", elsewhere)).error().word(), "proxy_password");
  EXPECT_EQ(read(network("p.example:1080", "me", "no base64!")).error().word(), "proxy_password");
}

TEST_F(EgressProxyTest, APortIsNeeded) {
  for (const char* address :
       {"proxy.example", "proxy.example:0", "socks5://proxy.example:1080", "", "a b:1"}) {
    auto proxy = read(network(address));
    ASSERT_FALSE(proxy.ok()) << address;
    EXPECT_NE(proxy.error().message().find("egressProxy.address"), std::string::npos)
        << proxy.error().message();
  }
}

TEST_F(EgressProxyTest, IsReachedAsThoseAboveSay) {
  auto proxy = read(network("proxy.example:1080"));
  EXPECT_EQ(way_to(**proxy, "9.9.9.9"), Way::kPass);
  EXPECT_EQ(way_to(**proxy, "10.0.0.1"), Way::kDeny);
  EXPECT_EQ(way_to(**proxy, "169.254.169.254"), Way::kDeny);
  policy::E2bNetwork block;
  block.deny_out = {"9.9.9.0/24"};
  policy::RuleSet above = policy::rules_from_e2b(block).value();
  above.source = policy::Source::kTenant;
  auto refused = read(network("proxy.example:1080"), {above});
  EXPECT_EQ(way_to(**refused, "9.9.9.9"), Way::kDeny);
  EXPECT_EQ(way_to(**refused, "8.8.8.8"), Way::kPass);
}

}  // namespace
}  // namespace atl::gateway
