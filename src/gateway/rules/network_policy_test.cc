// SPDX-License-Identifier: Apache-2.0
#include "gateway/rules/network_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atl::gateway {
namespace {

using Way = policy::ConnectionDecision::Way;

Way way(const char* network, const char* host, std::uint16_t port, policy::Stream stream,
        std::vector<policy::RuleSet> above = {}) {
  auto compiled = compile_network(boost::json::parse(network).as_object(), std::move(above));
  if (!compiled) {
    ADD_FAILURE() << compiled.error().message();
    return Way::kDeny;
  }
  policy::ConnectionFacts facts{{"s", "t", "b", ""}, {parse_host(host).value(), port}, std::nullopt, stream};
  return (*compiled)->connection(facts).way;
}

constexpr char kNamed[] = R"({"internet":false,"allow":["a.example"],"deny":[]})";
constexpr char kBlocks[] = R"({"internet":false,"allow":["10.0.0.0/8","9.9.9.0/24"],"deny":[]})";

TEST(NetworkPolicy, OpenPassesEverythingPublic) {
  EXPECT_EQ(way(R"({"internet":true})", "a.example", 22, policy::Stream::kOther), Way::kPass);
  EXPECT_EQ(way(R"({"internet":true})", "9.9.9.9", 443, policy::Stream::kTls), Way::kPass);
  EXPECT_EQ(way(R"({"internet":true})", "10.1.2.3", 80, policy::Stream::kHttp), Way::kDeny);
}

// Behind an egress proxy nobody here learns what a name resolves to: blocks neither open nor close names.
TEST(NetworkPolicy, BlocksSayNothingAboutNamesThatAProxyLooksUp) {
  auto way_of = [](const char* network, const char* host) {
    auto compiled = compile_network(boost::json::parse(network).as_object(), {}).value();
    policy::ConnectionFacts facts{{"s", "t", "b", ""}, {parse_host(host).value(), 443}};
    facts.stream = policy::Stream::kTls;
    facts.resolved_elsewhere = true;
    return compiled->connection(facts).way;
  };
  EXPECT_EQ(way_of(kBlocks, "a.example"), Way::kDeny);
  EXPECT_EQ(way_of(kBlocks, "9.9.9.9"), Way::kPass);
  EXPECT_EQ(way_of(R"({"internet":true,"deny":["9.9.9.0/24"]})", "a.example"), Way::kPass);
  EXPECT_EQ(way_of(R"({"internet":true,"deny":["9.9.9.0/24"]})", "9.9.9.9"), Way::kDeny);
}

TEST(NetworkPolicy, NamesAreForWebPortsAndAddressesForAll) {
  EXPECT_EQ(way(kNamed, "a.example", 443, policy::Stream::kTls), Way::kPass);
  EXPECT_EQ(way(kNamed, "a.example", 22, policy::Stream::kOther), Way::kDeny);
  EXPECT_EQ(way(kNamed, "b.example", 443, policy::Stream::kTls), Way::kDeny);
  EXPECT_EQ(way(kNamed, "9.9.9.9", 443, policy::Stream::kTls), Way::kDeny);
  EXPECT_EQ(way(kBlocks, "9.9.9.9", 22, policy::Stream::kOther), Way::kPass);
  EXPECT_EQ(way(kBlocks, "8.8.8.8", 22, policy::Stream::kOther), Way::kDeny);
  EXPECT_EQ(way(kBlocks, "10.1.1.1", 22, policy::Stream::kOther), Way::kDeny);  // a sandbox cannot open these
}

TEST(NetworkPolicy, HeaderRulesNeedARead) {
  const char* text = R"({"internet":true,"rules":{"a.example":{"x-key":"${e2b.secrets.k}"}}})";
  EXPECT_EQ(way(text, "a.example", 443, policy::Stream::kTls), Way::kInspect);
  EXPECT_EQ(way(text, "b.example", 443, policy::Stream::kTls), Way::kPass);
  EXPECT_TRUE((*compile_network(boost::json::parse(text).as_object(), {}))->may_inspect());
  EXPECT_FALSE((*compile_network(boost::json::parse(kNamed).as_object(), {}))->may_inspect());
}

TEST(NetworkPolicy, ASandboxOpensNothingThatItsTenantLeavesClosed) {
  auto tenant = [](const char* rules) {
    return std::vector{policy::parse_rule_set(rules, policy::Source::kTenant).value()};
  };
  const char* only_b = R"({"version":1,"default":"deny","rules":[{"action":"allow","hosts":["b.example"]}]})";
  EXPECT_EQ(way(kNamed, "a.example", 443, policy::Stream::kTls, tenant(only_b)), Way::kDeny);
  EXPECT_EQ(way(kNamed, "b.example", 443, policy::Stream::kTls, tenant(only_b)), Way::kDeny);
  EXPECT_EQ(way(R"({"internet":true})", "b.example", 443, policy::Stream::kTls, tenant(only_b)), Way::kPass);
  // Whatever an author above allows, the sandbox's own names are for the web only.
  const char* any_a = R"({"version":1,"default":"deny","rules":[{"action":"allow","hosts":["a.example"]}]})";
  EXPECT_EQ(way(kNamed, "a.example", 443, policy::Stream::kTls, tenant(any_a)), Way::kPass);
  EXPECT_EQ(way(kNamed, "a.example", 443, policy::Stream::kOther, tenant(any_a)), Way::kDeny);
  const char* lan = R"({"version":1,"rules":[{"action":"allow","hosts":["10.0.0.0/8"]}]})";
  EXPECT_EQ(way(kBlocks, "10.1.1.1", 22, policy::Stream::kOther, tenant(lan)), Way::kPass);
}

TEST(NetworkPolicy, WhatCannotBeReadIsRefused) {
  for (const char* text : {R"({"internet":1})", R"({"allow":["a b"]})", R"({"deny":["a.example"]})",
                           R"({"rules":{"a.example":{"bad name":"x"}}})"}) {
    EXPECT_FALSE(compile_network(boost::json::parse(text).as_object(), {}).ok()) << text;
  }
}

}  // namespace
}  // namespace atl::gateway
