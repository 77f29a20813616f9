// SPDX-License-Identifier: Apache-2.0
#include "gateway/policy/policy.h"

#include <gtest/gtest.h>

namespace atl::gateway::policy {
namespace {

using Way = ConnectionDecision::Way;
using Verdict = RequestDecision::Verdict;

RuleSet set_of(const std::string& rules, Source source = Source::kSandbox, const std::string& more = "") {
  auto set = parse_rule_set(R"({"version":1)" + more + R"(,"rules":[)" + rules + "]}", source);
  EXPECT_TRUE(set.ok()) << set.error().message();
  return std::move(set).value_or(RuleSet{});
}

std::shared_ptr<const Policy> policy_of(const std::string& rules) {
  return Policy::compile({set_of(rules, Source::kTenant)}).value();
}

ConnectionFacts connection_to(std::string_view authority, Stream stream,
                              std::string_view address = "1.2.3.4") {
  ConnectionFacts facts{
      .authority = parse_authority(authority, 0).value(), .address = std::nullopt, .stream = stream};
  if (!address.empty() && !facts.authority.host.is_address()) facts.address = parse_ip(address).value();
  return facts;
}

const http::Headers kNoHeaders;

RequestFacts request_to(std::string_view authority, std::string_view method, std::string_view path) {
  return {
      .at = connection_to(authority, Stream::kTls), .method = method, .path = path, .headers = &kNoHeaders};
}

constexpr const char* kAllowAll = R"({"id":"all","action":"allow","hosts":["*"]})";

TEST(Policy, NothingIsAllowedWithoutRules) {
  auto policy = Policy::compile({}).value();
  EXPECT_FALSE(policy->may_resolve("a.example", ""));
  EXPECT_EQ(policy->connection(connection_to("a.example:443", Stream::kTls)).way, Way::kDeny);
  EXPECT_EQ(policy->request(request_to("a.example:443", "GET", "/")).verdict, Verdict::kDeny);
}

// anthropics/claude-code#78608, #89165: a rule was loaded and not enforced; hosts that it does not list were
// answered.
TEST(Policy, ClaudeCode78608WhatIsNotListedIsRefused) {
  auto policy = policy_of(R"({"action":"allow","hosts":["listed.example"]})");
  auto decision = policy->connection(connection_to("other.example:443", Stream::kTls));
  EXPECT_EQ(decision.way, Way::kDeny);
  EXPECT_EQ(decision.refusal.rule, "default");
  EXPECT_EQ(decision.refusal.reason, "no rule allows other.example:443");
}

// NVIDIA/OpenShell#1169, superradcompany/microsandbox#675: labels of a name carry data out although HTTP is
// denied.
TEST(Policy, Microsandbox675NamesThatNoRuleAllowsDoNotResolve) {
  auto policy = policy_of(R"({"action":"allow","hosts":["api.example"]},
    {"action":"deny","hosts":["*.api.example"]},{"action":"adjust","hosts":["*"],"rate":"1/s"},
    {"action":"allow","hosts":["8.8.8.0/24"]})");
  EXPECT_TRUE(policy->may_resolve("api.example", ""));
  EXPECT_FALSE(policy->may_resolve("stolen-data.api.example", ""));
  EXPECT_FALSE(policy->may_resolve("stolen-data.example", ""));
}

TEST(Policy, ANameResolvesWhenOnlySomeOfItIsDenied) {
  auto policy =
      policy_of(R"({"action":"allow","hosts":["*"]},{"action":"deny","hosts":["a.example"],"ports":[22]},
    {"action":"deny","hosts":["b.example"],"methods":["POST"]},
    {"action":"deny","hosts":["c.example"],"protocol":"tls"})");
  for (const char* name : {"a.example", "b.example", "c.example"})
    EXPECT_TRUE(policy->may_resolve(name, "")) << name;
}

// sandialabs/abox#13: HTTP/2 or gRPC that the filter took for something else went through.
TEST(Policy, Abox13WhatCannotBeLookedIntoIsRefusedWhereRequestsAreJudged) {
  auto policy = policy_of(std::string(kAllowAll) +
                          R"(,
    {"id":"no-put","action":"deny","hosts":["a.example"],"methods":["PUT"]})");
  auto decision = policy->connection(connection_to("a.example:443", Stream::kOther));
  EXPECT_EQ(decision.way, Way::kDeny);
  EXPECT_EQ(decision.refusal.rule, "tenant/no-put");
  EXPECT_EQ(policy->connection(connection_to("a.example:443", Stream::kTls)).way, Way::kInspect);
  EXPECT_EQ(policy->connection(connection_to("b.example:443", Stream::kOther)).way, Way::kPass);
  EXPECT_EQ(policy->connection(connection_to("b.example:443", Stream::kTls)).way, Way::kPass);
}

// vercel/eve#2440: where nothing is intercepted the placeholder went to the origin, and nobody was told.
TEST(Policy, Eve2440AStreamThatNoCredentialCanBePutIntoIsRefused) {
  auto policy = policy_of(R"({"id":"key","action":"allow","hosts":["a.example"],"credential":"key"},)" +
                          std::string(kAllowAll));
  EXPECT_EQ(policy->connection(connection_to("a.example:9000", Stream::kTls)).way, Way::kInspect);
  EXPECT_EQ(policy->connection(connection_to("a.example:9000", Stream::kHttp)).way, Way::kInspect);
  auto decision = policy->connection(connection_to("a.example:9000", Stream::kOther));
  EXPECT_EQ(decision.way, Way::kDeny);
  EXPECT_EQ(decision.refusal.rule, "tenant/key");
}

// dam-agents/dam#92: the credential of host A went with a request to host B, which was allowed too.
TEST(Policy, Dam92ACredentialGoesToItsOwnHost) {
  auto policy = policy_of(R"({"action":"allow","hosts":["a.example"],"credential":"key-a"},
    {"action":"allow","hosts":["b.example"]})");
  EXPECT_EQ(policy->request(request_to("a.example:443", "GET", "/")).credentials,
            std::vector<std::string>{"key-a"});
  EXPECT_TRUE(policy->request(request_to("b.example:443", "GET", "/")).credentials.empty());
}

// dust-tt/dust#24656: allow by name does not cover a connection that is made to an address.
TEST(Policy, Dust24656ARuleForANameIsNoneForItsAddress) {
  auto policy = policy_of(kAllowAll);
  EXPECT_EQ(policy->connection(connection_to("a.example:443", Stream::kTls, "1.2.3.4")).way, Way::kPass);
  EXPECT_EQ(policy->connection(connection_to("1.2.3.4:443", Stream::kTls)).way, Way::kDeny);
}

// rappdw/sandy#154: a resolver over HTTPS defeats the policy of DNS. Here it is a host like any other, and
// what it answers is an address, for which no rule about names speaks.
TEST(Policy, Sandy154WhatAnotherResolverAnswersOpensNothing) {
  auto policy = policy_of(R"({"action":"allow","hosts":["api.example","doh.example"]})");
  EXPECT_EQ(policy->connection(connection_to("doh.example:443", Stream::kTls)).way, Way::kPass);
  EXPECT_EQ(policy->connection(connection_to("1.2.3.4:443", Stream::kTls)).way, Way::kDeny);
  EXPECT_EQ(policy->connection(connection_to("dns.example:443", Stream::kTls)).way, Way::kDeny);
}

// stripe/smokescreen#301: the proxy can be told to dial itself on another port. No port of this machine is
// reachable.
TEST(Policy, Smokescreen301NoPortOfThisMachine) {
  auto policy =
      policy_of(std::string(kAllowAll) + R"(,{"action":"allow","hosts":["0.0.0.0/0","::/0","127.0.0.0/8"]})");
  for (const char* to : {"127.0.0.1:8080", "[::1]:4750", "0.0.0.0:80", "0x7f.1:9999", "100.64.0.1:7400"})
    EXPECT_EQ(policy->connection(connection_to(to, Stream::kHttp)).refusal.rule, "special-address") << to;
  EXPECT_EQ(policy->connection(connection_to("me.example:4750", Stream::kHttp, "127.0.0.1")).way, Way::kDeny);
}

TEST(Policy, WithoutTheAddressOnlyTheAddressIsOpen) {
  auto policy = policy_of(std::string(kAllowAll) + R"(,{"action":"deny","hosts":["1.2.3.0/24"]},
    {"action":"deny","hosts":["5.0.0.0/8"],"methods":["PUT"]})");
  EXPECT_EQ(policy->connection(connection_to("a.example:443", Stream::kOther, "")).way,
            Way::kDeny);  // the one about PUT
  EXPECT_EQ(policy->connection(connection_to("a.example:443", Stream::kTls, "")).way, Way::kInspect);
  EXPECT_EQ(policy->connection(connection_to("a.example:443", Stream::kTls, "1.2.3.4")).way, Way::kDeny);
  EXPECT_EQ(policy->connection(connection_to("a.example:443", Stream::kTls, "1.2.4.4")).way, Way::kPass);
}

TEST(Policy, ARequestMayBeJudgedBeforeItsNameIsResolved) {
  auto policy = policy_of(std::string(kAllowAll) + R"(,{"action":"deny","hosts":["1.2.3.0/24"]})");
  auto early = request_to("a.example:443", "GET", "/");
  early.at.address.reset();
  EXPECT_EQ(policy->request(early).verdict,
            Verdict::kAllow);  // and connection() refuses 1.2.3.4 when it is dialled
  EXPECT_FALSE(policy->request(early).provisional);
  EXPECT_EQ(policy->request(request_to("a.example:443", "GET", "/")).verdict, Verdict::kDeny);

  // A deny of requests by address: nobody asks again about the request, so it is refused at once.
  policy =
      policy_of(std::string(kAllowAll) + R"(,{"action":"deny","hosts":["5.0.0.0/8"],"methods":["PUT"]})");
  EXPECT_EQ(policy->request(early).verdict, Verdict::kAllow);
  early.method = "PUT";
  EXPECT_EQ(policy->request(early).verdict, Verdict::kDeny);
  EXPECT_EQ(policy->request(request_to("a.example:443", "PUT", "/")).verdict, Verdict::kAllow);
}

TEST(Policy, AnAddressRuleLetsThroughEarlyOnlyWhatDiallingWillCheck) {
  auto early = request_to("a.example:443", "POST", "/a");
  early.at.address.reset();
  std::string block = R"({"action":"allow","hosts":["1.2.3.0/24"],"viaName":true})";
  auto policy = policy_of(block);
  EXPECT_EQ(policy->request(early).verdict, Verdict::kAllow);
  EXPECT_TRUE(policy->request(early).provisional);
  EXPECT_FALSE(policy->request(request_to("a.example:443", "POST", "/a")).provisional);
  EXPECT_EQ(policy->connection(connection_to("a.example:443", Stream::kTls, "8.8.8.8")).way, Way::kDeny);

  // Here the other rule would let the connection to 8.8.8.8 pass, so it must not be tried.
  for (const char* other : {R"({"action":"allow","hosts":["a.example"],"methods":["GET"]})",
                            R"({"action":"ask","hosts":["a.example"]})",
                            R"({"action":"allow","hosts":["8.8.8.8"],"viaName":true,"paths":["/b"]})"}) {
    policy = policy_of(block + "," + other);
    EXPECT_NE(policy->request(early).verdict, Verdict::kAllow) << other;
    EXPECT_EQ(policy->request(request_to("a.example:443", "POST", "/a")).verdict, Verdict::kAllow) << other;
  }
  policy = policy_of(block + R"(,{"action":"allow","hosts":["b.example"],"methods":["GET"]})");
  EXPECT_EQ(policy->request(early).verdict, Verdict::kAllow);
  policy = policy_of(R"({"action":"allow","hosts":["1.2.3.0/24"],"viaName":true,"paths":["/a"]})");
  EXPECT_EQ(policy->request(early).verdict, Verdict::kDeny);
  EXPECT_EQ(policy->request(request_to("a.example:443", "POST", "/a")).verdict, Verdict::kAllow);
  early.at.address = parse_ip("8.8.8.8").value();
  EXPECT_EQ(policy->request(early).verdict, Verdict::kDeny);
}

TEST(Policy, HowARequestIsSentComesFromAllRulesThatCount) {
  auto policy = Policy::compile({set_of(R"({"id":"s","action":"allow","hosts":["a.example"],"credential":"k",
      "setHeaders":{"x-a":"sandbox","x-b":"sandbox"},"maxBodyBytes":10,"rate":"5/s"})"),
                                 set_of(R"({"id":"t","action":"allow","hosts":["a.example"],"credential":"k",
      "setHeaders":{"X-A":"tenant"},"maxBodyBytes":20},
      {"id":"u","action":"adjust","hosts":["*"],"rate":"100/h"})",
                                        Source::kTenant)})
                    .value();
  auto decision = policy->request(request_to("a.example:443", "GET", "/"));
  EXPECT_EQ(decision.rules, (std::vector<std::string>{"tenant/t", "sandbox/s", "tenant/u"}));
  EXPECT_EQ(decision.credentials, std::vector<std::string>{"k"});
  EXPECT_EQ(decision.set_headers, (std::vector<HeaderSet>{{"x-a", "tenant"}, {"x-b", "sandbox"}}));
  EXPECT_EQ(decision.max_body_bytes, 10u);
  EXPECT_EQ(decision.body_rule, "sandbox/s");
  ASSERT_EQ(decision.rates.size(), 2u);
  EXPECT_EQ(decision.rates[0].rule, "sandbox/s");
  EXPECT_EQ(decision.rates[1].rate, (Rate{100, 3600}));
}

TEST(Policy, WhatIsAllowedIsNotAskedFor) {
  auto policy = policy_of(R"({"id":"ask","action":"ask","hosts":["a.example"],"setHeaders":{"x-a":"asked"}},
    {"id":"get","action":"allow","hosts":["a.example"],"methods":["GET"]})");
  auto decision = policy->request(request_to("a.example:443", "GET", "/"));
  EXPECT_EQ(decision.verdict, Verdict::kAllow);
  EXPECT_EQ(decision.rules, std::vector<std::string>{"tenant/get"});
  EXPECT_TRUE(decision.set_headers.empty());
  EXPECT_EQ(policy->request(request_to("a.example:443", "PUT", "/")).set_headers.size(), 1u);
}

TEST(Policy, TheShortestTimesOfAllThatAskCount) {
  auto ask = [](const char* id, const char* more) {
    return fmt::format(R"({{"id":"{}","action":"ask","hosts":["a.example"]{}}})", id, more);
  };
  auto policy = Policy::compile({set_of(R"({"id":"all","action":"allow","hosts":["*"]})", Source::kOperator),
                                 set_of(ask("t", R"(,"holdSeconds":5)"), Source::kTenant),
                                 set_of(ask("b", R"(,"expireSeconds":60)"), Source::kTemplate)})
                    .value();
  auto decision = policy->request(request_to("a.example:443", "GET", "/"));
  EXPECT_EQ(decision.verdict, Verdict::kAsk);
  ASSERT_TRUE(decision.asked);
  EXPECT_EQ(decision.asked->rule, "tenant/t");  // and not the rule that allows it
  EXPECT_EQ(decision.asked->terms, (AskTerms{5, 60}));
  EXPECT_FALSE(policy->request(request_to("b.example:443", "GET", "/")).asked);
}

// A stream that nobody looks into would go out without a question.
TEST(Policy, WhatCannotBeLookedIntoIsRefusedWhereAPersonIsAsked) {
  for (const char* more : {"", R"(,"setHeaders":{"x-a":"b"})", R"(,"credential":"key")",
                           R"(,"methods":["POST"])", R"(,"methods":["POST"],"setHeaders":{"x-a":"b"})"}) {
    auto rule = fmt::format(R"({{"id":"ask","action":"ask","hosts":["a.example"]{}}})", more);
    auto policy = Policy::compile({set_of("", Source::kOperator, R"(,"default":"allow")"),
                                   set_of(rule, Source::kTenant),
                                   set_of(R"({"action":"allow","hosts":["*"]})", Source::kTemplate)})
                      .value();
    auto decision = policy->connection(connection_to("a.example:5432", Stream::kOther));
    EXPECT_EQ(decision.way, Way::kDeny) << more;
    EXPECT_EQ(decision.refusal.rule, "tenant/ask") << more;
    EXPECT_EQ(policy->connection(connection_to("a.example:443", Stream::kTls)).way, Way::kInspect) << more;
    EXPECT_EQ(policy->connection(connection_to("b.example:5432", Stream::kOther)).way, Way::kPass) << more;
  }
}

TEST(Policy, AskIsBoundLikeAllow) {
  auto policy = Policy::compile({set_of(R"({"action":"ask","hosts":["a.example"],"maxBodyBytes":10})",
                                        Source::kSandbox, R"(,"default":"allow")")})
                    .value();
  auto facts = request_to("a.example:443", "POST", "/");
  facts.body_bytes = 10;
  EXPECT_EQ(policy->request(facts).verdict, Verdict::kAsk);
  facts.body_bytes = 11;  // neither asked for nor open by default
  EXPECT_EQ(policy->request(facts).verdict, Verdict::kDeny);
}

TEST(Policy, TheStrictestDefaultHolds) {
  auto open = [](std::vector<RuleSet> sets) {
    auto policy = Policy::compile(std::move(sets)).value();
    return policy->connection(connection_to("a.example:443", Stream::kTls)).way == Way::kPass;
  };
  auto with = [](Source source, const char* word) {
    return set_of("", source, fmt::format(R"(,"default":"{}")", word));
  };
  EXPECT_TRUE(open({with(Source::kSandbox, "allow")}));
  EXPECT_FALSE(open({with(Source::kSandbox, "deny")}));
  EXPECT_FALSE(open({with(Source::kSandbox, "allow"), with(Source::kTenant, "deny")}));
  EXPECT_TRUE(open({with(Source::kSandbox, "allow"), set_of("", Source::kTenant)}));
  EXPECT_FALSE(open({set_of("", Source::kSandbox)}));
}

TEST(Policy, OneSetOfEachAuthor) {
  EXPECT_FALSE(Policy::compile({set_of(""), set_of("")}).ok());
  EXPECT_TRUE(Policy::compile({set_of(""), set_of("", Source::kSandbox, R"(,"shadow":true)")}).ok());
}

TEST(Policy, AShadowIsToldAndNotEnforced) {
  auto policy = Policy::compile({set_of(kAllowAll),
                                 set_of(R"({"id":"x","action":"deny","hosts":["a.example"],"methods":["PUT"]},
      {"id":"y","action":"deny","hosts":["b.example"]})",
                                        Source::kSandbox, R"(,"shadow":true)")})
                    .value();
  auto put = policy->request(request_to("a.example:443", "PUT", "/"));
  EXPECT_EQ(put.verdict, Verdict::kAllow);
  ASSERT_TRUE(put.shadow);
  EXPECT_EQ(put.shadow->verdict, "deny");
  EXPECT_EQ(put.shadow->rule, "shadow-sandbox/x");
  EXPECT_FALSE(policy->request(request_to("a.example:443", "GET", "/")).shadow);
  auto connection = policy->connection(connection_to("b.example:443", Stream::kTls));
  EXPECT_EQ(connection.way, Way::kPass);
  ASSERT_TRUE(connection.shadow);
  EXPECT_EQ(connection.shadow->rule, "shadow-sandbox/y");
  EXPECT_TRUE(policy->may_resolve("b.example", ""));
}

TEST(Policy, BodiesAreReadOnlyWhereARuleLooksIntoThem) {
  auto policy = policy_of(R"({"action":"allow","hosts":["a.example"],"when":"json('/a') == 1"},)" +
                          std::string(kAllowAll));
  EXPECT_TRUE(policy->reads_body(connection_to("a.example:443", Stream::kTls)));
  EXPECT_FALSE(policy->reads_body(connection_to("b.example:443", Stream::kTls)));
}

TEST(Policy, ExplainsEachRule) {
  auto policy = policy_of(R"({"id":"put","action":"deny","hosts":["a.example"],"methods":["PUT"]},
    {"id":"a","action":"allow","hosts":["a.example"],"paths":["/x"]},
    {"id":"b","action":"allow","hosts":["b.example"]},
    {"id":"c","action":"allow","hosts":["a.example"],"when":"header['x'] == 'y'"})");
  auto told = policy->explain(request_to("a.example:443", "GET", "/y"));
  EXPECT_EQ(told.decision.verdict, Verdict::kDeny);
  ASSERT_EQ(told.rules.size(), 4u);
  EXPECT_EQ(told.rules[0].why_not, "method");
  EXPECT_EQ(told.rules[1].why_not, "path");
  EXPECT_EQ(told.rules[2].why_not, "host");
  EXPECT_EQ(told.rules[3].why_not, "condition: unknown");
  EXPECT_TRUE(policy->explain(request_to("a.example:443", "GET", "/x")).rules[1].matched);
  EXPECT_EQ(policy->request(request_to("a.example:443", "GET", "/y")).refusal.hint,
            "rule tenant/c allows this host, but not this condition");
}

// anthropic-experimental/sandbox-runtime#353: deny "*" beats every allow, which its author does not expect.
TEST(Policy, SandboxRuntime353ADenyOfEverythingIsNoted) {
  auto policy = policy_of(R"({"action":"deny","hosts":["*"]},{"action":"allow","hosts":["a.example"]})");
  ASSERT_EQ(policy->notes().size(), 1u);
  EXPECT_NE(policy->notes()[0].find("\"default\": \"deny\""), std::string::npos);
  auto hopeful = Policy::compile({set_of(R"({"action":"allow","hosts":["10.0.0.0/8"]})")}).value();
  ASSERT_EQ(hopeful->notes().size(), 1u);
  EXPECT_EQ(hopeful->connection(connection_to("10.1.1.1:80", Stream::kHttp)).way, Way::kDeny);
}

TEST(Policy, EverythingDoesNotMeanPrivateAddresses) {
  auto policy =
      policy_of(std::string(kAllowAll) + R"(,{"action":"allow","hosts":["0.0.0.0/0","::/0","8.0.0.0/5"]})");
  for (const char* to : {"10.1.1.1:80", "192.168.1.1:80", "[fd12::1]:80"})
    EXPECT_EQ(policy->connection(connection_to(to, Stream::kHttp)).refusal.rule, "special-address") << to;
  EXPECT_EQ(policy->connection(connection_to("a.example:80", Stream::kHttp, "10.1.1.1")).way, Way::kDeny);
}

TEST(Policy, PrivateAddressesAreOpenForWhatTheTenantsRuleMatches) {
  auto policy = Policy::compile({set_of(R"({"action":"allow","hosts":["10.0.0.0/8"],"methods":["GET"]})",
                                        Source::kTenant),
                                 set_of(R"({"action":"allow","hosts":["db.example","10.0.0.0/8"]})")})
                    .value();
  auto facts = request_to("db.example:443", "GET", "/");
  facts.at.address = parse_ip("10.1.1.1").value();
  EXPECT_EQ(policy->request(facts).verdict, Verdict::kAllow);
  facts.method = "POST";
  EXPECT_EQ(policy->request(facts).refusal.rule, "special-address");
}

// By a name the request is judged before the address is known, and bytes that are no HTTP are never judged.
TEST(Policy, APrivateBlockForSomeRequestsIsNotOpenForWhatNobodyLooksAt) {
  auto policy = Policy::compile({set_of(R"({"action":"allow","hosts":["10.0.0.0/8"],"methods":["GET"]})",
                                        Source::kTenant)})
                    .value();
  EXPECT_EQ(policy->connection(connection_to("db.example:80", Stream::kHttp, "10.1.1.1")).way, Way::kDeny);
  EXPECT_EQ(policy->connection(connection_to("10.1.1.1:6379", Stream::kOther)).way, Way::kDeny);
  EXPECT_EQ(policy->connection(connection_to("10.1.1.1:80", Stream::kHttp)).way, Way::kInspect);
  auto tls = Policy::compile(
                 {set_of(R"({"action":"allow","hosts":["10.0.0.0/8"],"protocol":"tls"})", Source::kTenant)})
                 .value();
  EXPECT_EQ(tls->connection(connection_to("10.1.1.1:443", Stream::kTls)).way, Way::kPass);
  EXPECT_EQ(tls->connection(connection_to("10.1.1.1:80", Stream::kHttp)).way, Way::kDeny);
  EXPECT_EQ(tls->connection(connection_to("10.1.1.1:6379", Stream::kOther)).way, Way::kDeny);
}

TEST(Policy, TheOperatorsHeaderGoesBeforeOthersWhateverTheRuleDoes) {
  auto policy = Policy::compile(
                    {set_of(R"({"action":"adjust","hosts":["a.example"],"setHeaders":{"x-mark":"operator"}})",
                            Source::kOperator),
                     set_of(R"({"action":"allow","hosts":["a.example"],"setHeaders":{"x-mark":"tenant"}})",
                            Source::kTenant)})
                    .value();
  auto decision = policy->request(request_to("a.example:443", "GET", "/"));
  ASSERT_EQ(decision.set_headers.size(), 1u);
  EXPECT_EQ(decision.set_headers[0].value, "operator");
}

}  // namespace
}  // namespace atl::gateway::policy
