// SPDX-License-Identifier: Apache-2.0
#include "gateway/policy/dry_run.h"

#include <algorithm>

#include "base/text.h"
#include "http/syntax.h"

namespace atl::gateway::policy {
namespace {

namespace json = boost::json;

json::array names(const std::vector<std::string>& texts) {
  json::array out;
  for (const std::string& text : texts) out.emplace_back(text);
  return out;
}

json::object explained(const Explained& one) {
  json::object out{{"rule", one.rule}, {"action", action_name(one.action)}, {"matched", one.matched}};
  if (one.shadow) out["shadow"] = true;
  if (!one.why_not.empty()) out["why"] = one.why_not;
  return out;
}

void put_refusal(json::object& out, const Refusal& refusal) {
  out["rule"] = refusal.rule;
  out["reason"] = refusal.reason;
  out["hint"] = refusal.hint;
}

}  // namespace

std::string_view way_name(ConnectionDecision::Way way) {
  switch (way) {
    case ConnectionDecision::Way::kPass: return "pass";
    case ConnectionDecision::Way::kInspect: return "inspect";
    case ConnectionDecision::Way::kDeny: return "deny";
  }
  return "unknown";
}

std::string_view verdict_name(RequestDecision::Verdict verdict) {
  switch (verdict) {
    case RequestDecision::Verdict::kAllow: return "allow";
    case RequestDecision::Verdict::kAsk: return "ask";
    case RequestDecision::Verdict::kDeny: return "deny";
  }
  return "unknown";
}

Result<WrittenRequest> read_written_request(std::string_view method, std::string_view url) {
  constexpr std::string_view kHttp = "http://", kHttps = "https://";
  bool secure = url.starts_with(kHttps);
  if (!secure && !url.starts_with(kHttp))
    return make_error(Code::kInvalid, "'{}' is not a URL of http or https", printable(url.substr(0, 128)));
  if (!http::is_token(method))
    return make_error(Code::kInvalid, "'{}' is not a method", printable(method.substr(0, 32)));
  auto rest = url.substr((secure ? kHttps : kHttp).size());
  auto end = std::min(rest.find_first_of("/?#"), rest.size());
  TRY(Authority authority, parse_authority(rest.substr(0, end), usual_port(secure)));
  std::string target(rest.substr(end));
  if (!target.starts_with('/')) target.insert(0, "/");
  if (!http::is_origin_form(target) && target.find('\\') == std::string::npos)
    return make_error(Code::kInvalid,
                      "'{}' cannot be sent: encode blanks and other characters, leave out '#'",
                      printable(url.substr(0, 128)));
  auto question = std::min(target.find('?'), target.size());
  WrittenRequest out{.method = std::string(method), .authority = std::move(authority), .secure = secure};
  out.path = target.substr(0, question);
  if (question < target.size()) out.query = target.substr(question + 1);
  return out;
}

RequestFacts facts_of(const WrittenRequest& request) {
  RequestFacts facts{.at = {.authority = request.authority, .address = request.address}};
  facts.at.who.label = request.label;
  facts.at.stream = request.secure ? Stream::kTls : Stream::kHttp;
  facts.method = request.method;
  facts.path = request.path;
  facts.query = request.query;
  facts.headers = &request.headers;
  facts.body_bytes = request.body ? request.body->size() : 0;
  if (request.body && request.body->size() <= kMaxJudgedBody) facts.body = *request.body;
  facts.unix_seconds = request.unix_seconds;
  return facts;
}

json::object to_json(const ConnectionDecision& connection, const Explanation& explanation) {
  const RequestDecision& decision = explanation.decision;
  bool denied = decision.verdict == RequestDecision::Verdict::kDeny;
  json::object out{{"connection", way_name(connection.way)}, {"verdict", verdict_name(decision.verdict)}};
  if (connection.way == ConnectionDecision::Way::kDeny) {
    out["verdict"] = "deny";
    put_refusal(out, connection.refusal);
  } else if (denied) {
    put_refusal(out, decision.refusal);
  } else {
    out["rule"] = decision.rules.empty() ? kDefaultRule : std::string_view(decision.rules.front());
    out["credentials"] = names(decision.credentials);
    json::array fields;
    for (const HeaderSet& field : decision.set_headers) fields.emplace_back(field.name);
    out["setHeaders"] = std::move(fields);
    if (decision.max_body_bytes) out["maxBodyBytes"] = *decision.max_body_bytes;
    if (decision.provisional) out["addressDecides"] = true;
  }
  if (decision.shadow)
    out["shadow"] = {{"verdict", decision.shadow->verdict}, {"rule", decision.shadow->rule}};
  json::array rules;
  for (const Explained& one : explanation.rules) rules.push_back(explained(one));
  out["rules"] = std::move(rules);
  return out;
}

}  // namespace atl::gateway::policy
