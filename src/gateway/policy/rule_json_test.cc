// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "gateway/policy/rule.h"

namespace atl::gateway::policy {
namespace {

Result<RuleSet> with_rule(const std::string& rule) {
  return parse_rule_set(R"({"version":1,"rules":[)" + rule + "]}", Source::kTenant);
}

TEST(RuleJson, EverythingThatARuleCanSay) {
  auto set =
      with_rule(R"~({"id":"api","action":"allow","hosts":["api.example","*.example"],"except":["old.example"],
    "ports":[443,"8000-8100"],"protocol":"http","methods":["GET","POST"],"paths":["/v1/**"],"asSpelled":true,
    "maxBodyBytes":1000,"rate":"60/min","labels":["git"],"when":"has(header['x-a'])","credential":"key",
    "setHeaders":{"X-Team":"${e2b.secrets.team}"},"reason":"because"})~");
  ASSERT_TRUE(set.ok()) << set.error().message();
  const Rule& rule = set->rules.at(0);
  EXPECT_EQ(rule.id, "api");
  EXPECT_EQ(rule.action, Action::kAllow);
  EXPECT_EQ(rule.hosts.size(), 2u);
  EXPECT_EQ(rule.except.size(), 1u);
  EXPECT_EQ(rule.ports, (std::vector<PortRange>{{443, 443}, {8000, 8100}}));
  EXPECT_EQ(rule.protocol, Protocol::kHttp);
  EXPECT_EQ(rule.methods, (std::vector<std::string>{"GET", "POST"}));
  EXPECT_TRUE(rule.as_spelled);
  EXPECT_EQ(rule.max_body_bytes, 1000u);
  EXPECT_EQ(rule.rate, (Rate{60, 60}));
  EXPECT_EQ(rule.labels, std::vector<std::string>{"git"});
  EXPECT_TRUE(rule.when);
  EXPECT_EQ(rule.credential, "key");
  EXPECT_EQ(rule.set_headers, (std::vector<HeaderSet>{{"x-team", "${e2b.secrets.team}"}}));
  EXPECT_EQ(rule.reason, "because");
}

TEST(RuleJson, ASetSaysItsDefaultAndWhetherItIsATrial) {
  auto set = parse_rule_set(R"({"version":1,"default":"allow","shadow":true})", Source::kSandbox);
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(set->otherwise, Action::kAllow);
  EXPECT_TRUE(set->shadow);
  EXPECT_FALSE(parse_rule_set(R"({"version":1})", Source::kSandbox)->otherwise);
}

TEST(RuleJson, IdsAreMadeWhenMissing) {
  auto set = with_rule(R"({"action":"deny","hosts":["a.example"]},{"action":"deny","hosts":["b.example"]})");
  EXPECT_EQ(set->rules[0].id, "1");
  EXPECT_EQ(set->rules[1].id, "2");
}

struct Wrong {
  const char* rule;
  const char* place;
};

TEST(RuleJson, MistakesAreRefusedWithTheirPlace) {
  for (const Wrong& row : std::initializer_list<Wrong>{
           {R"({"action":"allow","hosts":["a.example"],"host":"x"})", "rules[0]: host: is not known here"},
           {R"({"action":"allow","hosts":["a.example"],"path":"/x"})", "rules[0]: path: is not known"},
           {R"({"hosts":["a.example"]})", "rules[0]: action"},
           {R"({"action":"permit","hosts":["a.example"]})", "rules[0]: action"},
           {R"({"action":"allow"})", "rules[0]: hosts: is required"},
           {R"({"action":"allow","hosts":[]})", "rules[0]: hosts: must not be empty"},
           {R"({"action":"allow","hosts":"a.example"})", "rules[0]: hosts: must be an array"},
           {R"({"action":"allow","hosts":["a*"]})", "rules[0]: hosts[0]"},
           {R"({"action":"allow","hosts":["a.example","10.0.0.1/8"]})", "rules[0]: hosts[1]"},
           {R"({"action":"allow","hosts":["a.example"],"ports":[0]})", "rules[0]: ports[0]"},
           {R"({"action":"allow","hosts":["a.example"],"ports":["90-80"]})", "rules[0]: ports[0]"},
           {R"({"action":"allow","hosts":["a.example"],"ports":[]})", "rules[0]: ports"},
           {R"({"action":"allow","hosts":["a.example"],"ports":[1.5]})", "rules[0]: ports[0]"},
           {R"({"action":"allow","hosts":["a.example"],"protocol":"ftp"})", "rules[0]: protocol"},
           {R"({"action":"allow","hosts":["a.example"],"methods":["get"]})", "rules[0]: methods[0]"},
           {R"({"action":"allow","hosts":["a.example"],"paths":["v1"]})", "rules[0]: paths[0]"},
           {R"({"action":"allow","hosts":["a.example"],"paths":["/a/../b"]})", "rules[0]: paths[0]"},
           {R"({"action":"allow","hosts":["a.example"],"maxBodyBytes":-1})", "rules[0]: maxBodyBytes"},
           {R"({"action":"allow","hosts":["a.example"],"rate":"60"})", "rules[0]: rate"},
           {R"({"action":"allow","hosts":["a.example"],"rate":"0/s"})", "rules[0]: rate"},
           {R"({"action":"allow","hosts":["a.example"],"rate":"5/day"})", "rules[0]: rate"},
           {R"({"action":"allow","hosts":["a.example"],"when":"port = 1"})", "rules[0]: when: position 6"},
           {R"({"action":"allow","hosts":["a.example"],"credential":"a b"})", "rules[0]: credential"},
           {R"({"action":"allow","hosts":["*"],"credential":"key"})", "rules[0]: credential"},
           {R"({"action":"allow","hosts":["8.0.0.0/8"],"credential":"key"})", "rules[0]: credential"},
           {R"({"action":"allow","hosts":["a.example"],"setHeaders":{"Host":"b"}})",
            "rules[0]: setHeaders.Host"},
           {R"({"action":"allow","hosts":["a.example"],"setHeaders":{"Connection":"x-api-key"}})",
            "setHeaders.Connection"},
           {R"({"action":"allow","hosts":["a.example"],"setHeaders":{"a b":"c"}})",
            "rules[0]: setHeaders.a b"},
           {R"({"action":"allow","hosts":["a.example"],"setHeaders":{"a":"c\r\nd: e"}})",
            "rules[0]: setHeaders.a"},
           {R"({"action":"allow","hosts":["a.example"],"setHeaders":{"A":"1","a":"2"}})", "in two spellings"},
           {R"({"action":"deny","hosts":["a.example"],"credential":"key"})", "rules[0]: action"},
           {R"({"action":"deny","hosts":["a.example"],"maxBodyBytes":1})", "rules[0]: maxBodyBytes"},
           {R"({"action":"deny","hosts":["a.example"],"rate":"1/s"})", "rules[0]: rate"},
           {R"({"action":"adjust","hosts":["a.example"]})", "rules[0]: action"},
           {R"({"action":"allow","hosts":["a.example"],"holdSeconds":55})", "rules[0]: holdSeconds"},
           {R"({"action":"deny","hosts":["a.example"],"expireSeconds":60})", "rules[0]: expireSeconds"},
           {R"({"action":"ask","hosts":["a.example"],"holdSeconds":541})", "rules[0]: holdSeconds"},
           {R"({"action":"ask","hosts":["a.example"],"expireSeconds":0})", "rules[0]: expireSeconds"},
           {R"({"action":"allow","hosts":["a.example"],"viaName":true})", "rules[0]: viaName"},
           {R"({"action":"allow","hosts":["a.example"],"protocol":"tls","methods":["GET"]})",
            "rules[0]: protocol"},
           {R"({"action":"allow","hosts":["8.8.8.8"],"protocol":"udp"})", "only DNS leaves sandboxes"},
           {R"({"action":"allow","hosts":["a.example"],"labels":["a b"]})", "rules[0]: labels[0]"},
           {R"({"action":"allow","hosts":["a.example"],"reason":"a\u0007"})", "rules[0]: reason"},
           {R"({"id":"x","action":"deny","hosts":["a.io"]},{"id":"x","action":"deny","hosts":["a.io"]})",
            "rules[1].id"},
           {R"(7)", "rules[0]: must be an object"}}) {
    auto set = with_rule(row.rule);
    ASSERT_FALSE(set.ok()) << row.rule;
    EXPECT_NE(set.error().message().find(row.place), std::string::npos)
        << row.rule << ": " << set.error().message();
  }
}

// BerriAI/litellm#24952, #37053, #31467, #26996: the stored key went to whatever host the caller named.
TEST(RuleJson, Litellm24952ACredentialIsBoundToNamedHosts) {
  for (const char* hosts :
       {R"(["*"])", R"(["a.example","*"])", R"(["0.0.0.0/0"])", R"(["8.8.8.0/24"])", R"(["::/0"])"}) {
    auto set = with_rule(fmt::format(R"({{"action":"allow","hosts":{},"credential":"key"}})", hosts));
    ASSERT_FALSE(set.ok()) << hosts;
    EXPECT_NE(set.error().message().find("credential"), std::string::npos);
  }
  EXPECT_TRUE(
      with_rule(R"({"action":"allow","hosts":["a.example","*.b.example","8.8.8.8"],"credential":"key"})")
          .ok());
}

TEST(RuleJson, MistakesOutsideOfRules) {
  for (const char* text :
       {"", "[]", "{}", R"({"version":2})", R"({"version":1,"rule":[]})", R"({"version":1,"default":"ask"})",
        R"({"version":1,"rules":{}})", R"({"version":1,"version":1})", R"({"version":1}x)",
        R"({"version":1,"shadow":"yes"})"})
    EXPECT_FALSE(parse_rule_set(text, Source::kTenant).ok()) << text;
}

TEST(RuleJson, Bounds) {
  std::string rule = R"({"action":"deny","hosts":["a.example"]})", many = rule;
  for (std::size_t i = 1; i < kMaxRules; ++i) many += "," + rule;
  EXPECT_TRUE(with_rule(many).ok());
  EXPECT_FALSE(with_rule(many + "," + rule).ok());
  EXPECT_FALSE(parse_rule_set(std::string(kMaxRuleSetBytes + 1, ' '), Source::kTenant).ok());
}

}  // namespace
}  // namespace atl::gateway::policy
