// SPDX-License-Identifier: Apache-2.0
#include "gateway/fronts/network_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atl::gateway {
namespace {

using Way = policy::ConnectionDecision::Way;

Way way(const char* network, const char* host, std::uint16_t port, policy::Stream stream) {
  auto compiled = compile_network(boost::json::parse(network).as_object());
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
  EXPECT_TRUE((*compile_network(boost::json::parse(text).as_object()))->may_inspect());
  EXPECT_FALSE((*compile_network(boost::json::parse(kNamed).as_object()))->may_inspect());
}

TEST(NetworkPolicy, WhatCannotBeReadIsRefused) {
  for (const char* text : {R"({"internet":1})", R"({"allow":["a b"]})", R"({"deny":["a.example"]})",
                           R"({"rules":{"a.example":{"bad name":"x"}}})", R"({"tenant":{"version":2}})"}) {
    EXPECT_FALSE(compile_network(boost::json::parse(text).as_object()).ok()) << text;
  }
}

}  // namespace
}  // namespace atl::gateway
