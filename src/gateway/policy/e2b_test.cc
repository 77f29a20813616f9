// SPDX-License-Identifier: Apache-2.0
#include "gateway/policy/e2b.h"

#include <gtest/gtest.h>

#include "gateway/policy/policy.h"

namespace atl::gateway::policy {
namespace {

using Way = ConnectionDecision::Way;

struct Network : E2bNetwork {
  std::shared_ptr<const Policy> policy() const {
    auto rules = rules_from_e2b(*this);
    EXPECT_TRUE(rules.ok()) << rules.error().message();
    return Policy::compile({*std::move(rules)}).value();
  }
  bool opens(std::string_view authority, std::string_view address = "", Stream stream = Stream::kTls) const {
    ConnectionFacts facts{
        .authority = parse_authority(authority, 0).value(), .address = std::nullopt, .stream = stream};
    if (!address.empty()) facts.address = parse_ip(address).value();
    return policy()->connection(facts).way != Way::kDeny;
  }
};

TEST(E2b, NothingSaidIsEverythingPublic) {
  Network network;
  EXPECT_TRUE(network.opens("a.example:443", "1.2.3.4"));
  EXPECT_TRUE(network.opens("1.2.3.4:22", "", Stream::kOther));
  EXPECT_FALSE(network.opens("a.example:443", "10.0.0.1"));
  EXPECT_FALSE(network.opens("169.254.169.254:80", "", Stream::kHttp));
  EXPECT_TRUE(network.policy()->may_resolve("a.example", ""));
}

TEST(E2b, NoInternetAccess) {
  Network network;
  network.allow_internet_access = false;
  EXPECT_FALSE(network.opens("a.example:443", "1.2.3.4"));
  EXPECT_FALSE(network.opens("1.2.3.4:443"));
  EXPECT_FALSE(network.opens("[2600::1]:443"));
  EXPECT_FALSE(network.policy()->may_resolve("a.example", ""));
  network.allow_out = {"a.example"};
  EXPECT_TRUE(network.opens("a.example:443", "1.2.3.4"));
}

TEST(E2b, DenyOutClosesWhatIsOpen) {
  Network network;
  network.deny_out = {"1.2.3.0/24", "9.9.9.9"};
  EXPECT_FALSE(network.opens("1.2.3.4:443"));
  EXPECT_FALSE(network.opens("a.example:443", "1.2.3.4"));
  EXPECT_FALSE(network.opens("[64:ff9b::1.2.3.4]:443"));
  EXPECT_FALSE(network.opens("9.9.9.9:53", "", Stream::kOther));
  EXPECT_TRUE(network.opens("1.2.4.4:443"));
}

TEST(E2b, AllowOutBeatsDenyOut) {
  Network network;
  network.deny_out = {"1.2.3.0/24"};
  network.allow_out = {"1.2.3.4"};
  EXPECT_TRUE(network.opens("1.2.3.4:443"));
  EXPECT_TRUE(network.opens("a.example:443", "1.2.3.4"));
  EXPECT_FALSE(network.opens("1.2.3.5:443"));
  EXPECT_FALSE(network.opens("a.example:443", "1.2.3.5"));
  network.deny_out = {"0.0.0.0/0", "1.2.3.4"};
  EXPECT_TRUE(network.opens("1.2.3.4:443"));
  EXPECT_TRUE(network.opens("a.example:443", "1.2.3.4"));  // by its address, as there
  EXPECT_FALSE(network.opens("a.example:443", "1.2.3.5"));
  EXPECT_FALSE(network.opens("[2600::1]:443"));
  network.allow_out = {"0.0.0.0/0"};
  EXPECT_TRUE(network.opens("[2600::1]:443"));
}

TEST(E2b, DomainsNeedEverythingDenied) {
  Network network;
  network.allow_out = {"api.example", "*.files.example"};
  auto refused = rules_from_e2b(network);
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(refused.error().message().starts_with("network.allowOut: a domain needs"))
      << refused.error().message();
  network.deny_out = {"0.0.0.0/0"};
  EXPECT_TRUE(network.opens("API.example:443", "1.2.3.4"));
  EXPECT_TRUE(network.opens("api.example:80", "1.2.3.4", Stream::kHttp));
  EXPECT_TRUE(network.opens("a.files.example:443", "1.2.3.4"));
  EXPECT_FALSE(network.opens("files.example:443", "1.2.3.4"));
  EXPECT_FALSE(network.opens("api.example:22", "1.2.3.4", Stream::kOther));
  EXPECT_FALSE(network.opens("api.example:443", "1.2.3.4", Stream::kOther));
  EXPECT_FALSE(network.opens("api.example:8443", "1.2.3.4"));
  network.https_ports = {8443};
  EXPECT_TRUE(network.opens("api.example:8443", "1.2.3.4"));
  EXPECT_FALSE(network.opens("api.example:443", "10.0.0.1"));
  EXPECT_FALSE(network.policy()->may_resolve("other.example", ""));
  network.allow_out = {"*"};
  EXPECT_TRUE(network.opens("any.example:443", "1.2.3.4"));
  EXPECT_FALSE(network.opens("1.2.3.4:443"));
}

TEST(E2b, PrivateRangesStayShut) {
  Network network;
  network.allow_out = {"10.0.0.0/8", "192.168.1.1", "127.0.0.1", "169.254.169.254"};
  for (const char* to : {"10.1.2.3:443", "192.168.1.1:443", "127.0.0.1:443", "169.254.169.254:80"})
    EXPECT_FALSE(network.opens(to)) << to;
}

TEST(E2b, TransformsChangeRequestsAndOpenNothing) {
  Network network;
  network.rules["api.example"]["Authorization"] = "Bearer ${e2b.secrets.key}";
  ConnectionFacts at{.authority = parse_authority("api.example:443", 0).value(),
                     .address = parse_ip("1.2.3.4").value(),
                     .stream = Stream::kTls};
  EXPECT_EQ(network.policy()->connection(at).way, Way::kInspect);
  http::Headers headers;
  RequestFacts facts{.at = at, .method = "GET", .path = "/", .headers = &headers};
  auto decision = network.policy()->request(facts);
  EXPECT_EQ(decision.verdict, RequestDecision::Verdict::kAllow);
  EXPECT_EQ(decision.set_headers, (std::vector<HeaderSet>{{"authorization", "Bearer ${e2b.secrets.key}"}}));
  network.deny_out = {"0.0.0.0/0"};
  EXPECT_EQ(network.policy()->connection(at).way, Way::kDeny);
  EXPECT_EQ(network.policy()->request(facts).verdict, RequestDecision::Verdict::kDeny);
}

TEST(E2b, MistakesAreRefusedWithTheirField) {
  auto message = [](const Network& network) {
    auto rules = rules_from_e2b(network);
    return rules.ok() ? std::string() : rules.error().message();
  };
  Network network;
  network.deny_out = {"1.2.3.4", "evil.example"};
  EXPECT_TRUE(message(network).starts_with("network.denyOut[1]: must be an address"));
  network.deny_out = {"*"};
  EXPECT_TRUE(message(network).starts_with("network.denyOut[0]"));
  network.deny_out = {"300.1.1.1"};
  EXPECT_TRUE(message(network).starts_with("network.denyOut[0]"));
  network.deny_out = {"10.1.2.3/8"};
  EXPECT_EQ(message(network), "");
  network.allow_out = {"https://a.example"};
  EXPECT_TRUE(message(network).starts_with("network.allowOut[0]"));
  network.allow_out = {};
  for (int i = 0; i < 11; ++i) network.rules[fmt::format("h{}.example", i)]["a"] = "b";
  EXPECT_TRUE(message(network).starts_with("network.rules: at most 10 hosts"));
  network.rules.clear();
  for (int i = 0; i < 21; ++i) network.rules["h.example"][fmt::format("x-{}", i)] = "b";
  EXPECT_TRUE(message(network).starts_with("network.rules.h.example: at most 20 headers"));
  network.rules.clear();
  network.rules["h.example"][std::string(65, 'x')] = "b";
  EXPECT_NE(message(network).find("at most 64 bytes"), std::string::npos);
  network.rules.clear();
  network.rules["h.example"]["x"] = std::string(2049, 'x');
  EXPECT_NE(message(network).find("at most 2048 bytes"), std::string::npos);
  network.rules["h.example"]["x"] = "a\r\nb: c";
  EXPECT_NE(message(network), "");
  std::string many;
  for (int i = 0; i < 33; ++i) many += "${e2b.secrets.a}";
  network.rules["h.example"]["x"] = many;
  EXPECT_TRUE(message(network).starts_with("network.rules: at most 32 placeholders"));
}

}  // namespace
}  // namespace atl::gateway::policy
