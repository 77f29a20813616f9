// SPDX-License-Identifier: Apache-2.0
//
// What a decision of the gateway's policy costs: 50 rules, of which the ones that count are the last ones
// looked at.
#include "gateway/policy/policy.h"

#include <benchmark/benchmark.h>

namespace {

using namespace atl;
using namespace atl::gateway;
using namespace atl::gateway::policy;

// 10 denies and 38 allows for other hosts, then one allow with method, path and credential, and one with a
// condition.
std::shared_ptr<const Policy> fifty_rules() {
  std::string rules;
  for (int i = 0; i < 10; ++i) rules += fmt::format(R"({{"action":"deny","hosts":["*.bad{}.example"]}},)", i);
  for (int i = 0; i < 38; ++i)
    rules += fmt::format(R"({{"action":"allow","hosts":["host{}.example"],"ports":[443]}},)", i);
  rules +=
      R"({"action":"allow","hosts":["api.model.example"],"ports":[443],"protocol":"http","methods":["POST"],
    "paths":["/v1/messages/**"],"maxBodyBytes":1000000,"rate":"600/min","credential":"model-key"},)";
  rules +=
      R"j({"action":"allow","hosts":["api.other.example"],"when":"json('/model') in ['small', 'medium'])j"
      R"j( && header['content-type'].startsWith('application/json') && path.matches('^/v1/[a-z]+$')"})j";
  auto set = parse_rule_set(R"({"version":1,"default":"deny","rules":[)" + rules + "]}", Source::kSandbox);
  return Policy::compile({std::move(set).value()}).value();
}

struct Request {
  http::Headers headers{{"content-type", "application/json"}, {"accept", "*/*"}, {"user-agent", "bench"}};
  std::string body = R"({"model":"small","max_tokens":100,"messages":[{"role":"user","content":")" +
                     std::string(900, 'x') + R"("}]})";
  RequestFacts facts;

  explicit Request(std::string_view host)
      : facts{.at = {.authority = parse_authority(host, 443).value(),
                     .address = parse_ip("1.2.3.4").value(),
                     .stream = Stream::kTls}} {
    facts.method = "POST";
    facts.path = "/v1/messages";
    facts.headers = &headers;
    facts.body = body;
    facts.body_bytes = body.size();
  }
};

void ask_request(benchmark::State& state, std::string_view host, RequestDecision::Verdict expected) {
  auto policy = fifty_rules();
  Request request(host);
  for (auto _ : state) {
    auto decision = policy->request(request.facts);
    if (decision.verdict != expected) state.SkipWithError("another verdict");
    benchmark::DoNotOptimize(decision);
  }
}

void request_allowed(benchmark::State& state) {
  ask_request(state, "api.model.example", RequestDecision::Verdict::kAllow);
}
void request_with_condition_on_1k_body(benchmark::State& state) {
  ask_request(state, "api.other.example", RequestDecision::Verdict::kAllow);
}
void request_denied(benchmark::State& state) {
  ask_request(state, "nobody.example", RequestDecision::Verdict::kDeny);
}

void connection_allowed(benchmark::State& state) {
  auto policy = fifty_rules();
  Request request("api.model.example");
  for (auto _ : state) benchmark::DoNotOptimize(policy->connection(request.facts.at));
}

void name_resolves(benchmark::State& state) {
  auto policy = fifty_rules();
  for (auto _ : state) benchmark::DoNotOptimize(policy->may_resolve("api.model.example", ""));
}

void authority_agreed(benchmark::State& state) {
  AuthorityClaims claims{.dialled = parse_authority("api.model.example:443", 0).value(),
                         .sni = "api.model.example",
                         .host = "api.model.example",
                         .absolute = std::nullopt};
  for (auto _ : state) benchmark::DoNotOptimize(agree(claims));
}

BENCHMARK(request_allowed);
BENCHMARK(request_with_condition_on_1k_body);
BENCHMARK(request_denied);
BENCHMARK(connection_allowed);
BENCHMARK(name_resolves);
BENCHMARK(authority_agreed);

}  // namespace

BENCHMARK_MAIN();
