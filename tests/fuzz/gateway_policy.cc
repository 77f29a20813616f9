// SPDX-License-Identifier: Apache-2.0
//
// Rules, and a request against them. The input is texts with NUL between them: the rules, then method, path,
// query, a header, body. Beyond "no crash": denied is said with a reason, and what is let through keeps the
// promises of the rules.
#include "base/check.h"
#include "base/text.h"
#include "gateway/policy/policy.h"

namespace {

using namespace atl;
using namespace atl::gateway;
using namespace atl::gateway::policy;

void check_path(std::string_view raw) {
  auto path = read_path(raw);
  if (!path.clear()) return;
  for (const std::string& segment : path.segments) {
    CHECK(segment.find('/') == std::string::npos && segment != ".." && segment != ".", "segment '{}'",
          segment);
  }
}

void check_decision(const Policy& policy, const RequestFacts& facts) {
  auto decision = policy.request(facts);
  bool denied = decision.verdict == RequestDecision::Verdict::kDeny;
  CHECK(denied == !decision.refusal.reason.empty(), "a refusal without a reason");
  CHECK(!denied || decision.credentials.empty(), "a credential for a refused request");
  for (const HeaderSet& field : decision.set_headers)
    CHECK(field.value.find_first_of("\r\n") == std::string::npos, "a line break in {}", field.name);
  (void)policy.connection(facts.at);
  CHECK(policy.explain(facts).decision.verdict == decision.verdict, "explained otherwise");
  if (!denied) {
    RequestFacts inside = facts;
    inside.at.address = parse_ip("169.254.169.254").value();
    CHECK(policy.request(inside).verdict == RequestDecision::Verdict::kDeny, "a metadata service is open");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  auto parts = split(std::string_view(reinterpret_cast<const char*>(data), size), '\0');
  parts.resize(std::max<std::size_t>(parts.size(), 6));
  check_path(parts[2]);
  if (auto condition = Expression::compile(parts[0]); condition.ok())
    CHECK((*condition)->cost() <= kMaxExpressionCost, "cost {}", (*condition)->cost());
  auto set = parse_rule_set(parts[0], Source::kTenant);
  if (!set.ok()) return 0;
  auto policy = Policy::compile({*std::move(set)}).value();
  http::Headers headers{{"x-a", std::string(parts[4])}};
  RequestFacts facts{.at = {.authority = parse_authority("a.example:443", 0).value(),
                            .address = IpAddress::v4(0x08080808),
                            .stream = Stream::kTls},
                     .method = parts[1],
                     .path = parts[2],
                     .query = parts[3],
                     .headers = &headers,
                     .body_bytes = parts[5].size(),
                     .body = parts[5]};
  check_decision(*policy, facts);
  (void)policy->may_resolve("a.example", "");
  return 0;
}
