// SPDX-License-Identifier: Apache-2.0
#include "gateway/rules/rules_api.h"

#include "base/log.h"
#include "base/text.h"
#include "gateway/policy/dry_run.h"
#include "gateway/rules/network_policy.h"
#include "http/json.h"

namespace atl::gateway {
namespace {

namespace json = boost::json;
using async::Task;
using policy::Source;

constexpr std::string_view kBase = "/v1/rules";
constexpr std::size_t kMaxBody = policy::kMaxRuleSetBytes + 1;
constexpr std::size_t kMaxName = 64;

Error unknown() { return make_error(Code::kNotFound, "no such call"); }

json::object error_json(const Error& error) {
  json::object out;
  out["code"] = http_status(error.code());
  out["message"] = error.message();
  out["error_code"] = std::string_view(error.word());
  if (!error.hint().empty()) out["hint"] = error.hint();
  return out;
}

json::array texts(const std::vector<std::string>& list) { return json::array(list.begin(), list.end()); }

json::array texts(const std::vector<HostPattern>& hosts) {
  json::array out;
  for (const HostPattern& host : hosts) out.emplace_back(host.text());
  return out;
}

// What people need to recognise a rule. Values that it sets stay with who may read the whole set.
json::object rule_json(const policy::Rule& rule, const policy::RuleSet& set) {
  json::object out;
  out["rule"] = fmt::format("{}{}/{}", set.shadow ? "shadow-" : "", source_name(set.source), rule.id);
  out["action"] = action_name(rule.action);
  out["hosts"] = texts(rule.hosts);
  if (!rule.methods.empty()) out["methods"] = texts(rule.methods);
  if (!rule.labels.empty()) out["labels"] = texts(rule.labels);
  if (rule.rate) out["rate"] = fmt::format("{} in {} s", rule.rate->count, rule.rate->seconds);
  return out;
}

json::object set_json(const policy::RuleSet& set) {
  json::object out{{"author", source_name(set.source)}, {"trial", set.shadow}};
  if (set.otherwise) out["default"] = action_name(*set.otherwise);
  json::array rules;
  for (const policy::Rule& rule : set.rules) rules.push_back(rule_json(rule, set));
  out["rules"] = std::move(rules);
  return out;
}

}  // namespace

struct RulesApi::Call {
  std::string method, author, name, body;
  bool trial = false;
};

bool RulesApi::takes(const http::RequestHead& request) {
  return request.path() == kBase || request.path().starts_with(std::string(kBase) + "/");
}

Task<> RulesApi::handle(http::Exchange& exchange) {
  auto body = co_await answer(exchange);
  http::ResponseHead head;
  head.status = !body.ok() ? http_status(body.error().code()) : body->empty() ? 204 : 200;
  std::string text = body.ok() ? *std::move(body) : json::serialize(error_json(body.error()));
  if (!text.empty()) head.headers.add("content-type", "application/json");
  (void)co_await exchange.respond(std::move(head), std::move(text));
}

Task<Result<std::string>> RulesApi::answer(http::Exchange& exchange) {
  const http::RequestHead& request = exchange.request();
  Call call;
  call.method = request.method;
  CO_TRY(auto query, http::parse_query(request.query()));
  call.trial = http::query_value(query, "trial") == "true";
  std::vector<std::string> path;
  for (auto part : split(request.path().substr(kBase.size()), '/')) {
    auto decoded = http::percent_decode(part);
    if (!decoded) co_return unknown();
    path.push_back(std::move(*decoded));
  }
  if (path.size() == 1 && path[0].empty() && call.method == "GET") co_return list();
  if (path.size() != 3 || path[2].empty() || path[2].size() > kMaxName) co_return unknown();
  call.author = std::move(path[1]);
  call.name = std::move(path[2]);
  CO_TRY(call.body, co_await exchange.read_all(kMaxBody));
  co_return co_await one(std::move(call));
}

Task<Result<std::string>> RulesApi::one(Call call) {
  if (call.author == "sandbox") {
    if (call.method == "GET") co_return in_force(call.name);
    if (call.method == "POST") co_return try_out(call.name, call.body);
    co_return unknown();
  }
  if (call.author != "tenant" && call.author != "template") co_return unknown();
  RuleKey key{call.author == "tenant" ? Source::kTenant : Source::kTemplate, std::move(call.name),
              call.trial};
  if (call.method == "PUT") co_return co_await put(std::move(key), std::move(call.body));
  if (call.method == "DELETE") {
    CO_TRY_VOID(co_await book_.remove(std::move(key)));
    co_return std::string();
  }
  if (call.method != "GET") co_return unknown();
  auto found = book_.all().find(key);
  if (found == book_.all().end()) {
    co_return make_error(Code::kNotFound, "there are no {}rules of {} {}", key.trial ? "trial " : "",
                         source_name(key.author), key.name);
  }
  co_return found->second.text;
}

Task<Result<std::string>> RulesApi::put(RuleKey key, std::string text) {
  CO_TRY(policy::RuleSet set, policy::parse_rule_set(text, key.author));
  CO_TRY(auto alone, policy::Policy::compile({std::move(set)}));
  CO_TRY_VOID(co_await book_.set(key.author, std::move(key.name), std::move(text)));
  co_return json::serialize(json::object{{"notes", texts(alone->notes())}});
}

std::string RulesApi::list() const {
  json::array out;
  for (const auto& [key, kept] : book_.all()) {
    json::object one{{"author", source_name(key.author)}, {"name", key.name}, {"trial", key.trial}};
    one["rules"] = kept.set.rules.size();
    if (kept.set.otherwise) one["default"] = action_name(*kept.set.otherwise);
    one["updatedAt"] = format_rfc3339(kept.updated_at);
    if (key.author == Source::kOperator) {
      one["file"] = file_.path();
      if (!file_.problem().empty()) one["problem"] = file_.problem();
    }
    out.push_back(std::move(one));
  }
  return json::serialize(json::object{{"policies", std::move(out)}});
}

Result<SandboxPtr> RulesApi::find(const std::string& sandbox) const {
  SandboxPtr found = registry_.find(sandbox);
  if (found && found->policy) return found;
  return make_error(Code::kNotFound, "the gateway does not know sandbox {}", sandbox)
      .with_hint("it knows those that run or rest in memory");
}

Result<std::string> RulesApi::in_force(const std::string& sandbox) const {
  TRY(SandboxPtr found, find(sandbox));
  auto sets = book_.above(found->tenant, found->template_id);
  TRY(policy::RuleSet own, read_network(*found->network));
  sets.push_back(std::move(own));
  json::array authors;
  for (const policy::RuleSet& set : sets) authors.push_back(set_json(set));
  json::object out{{"sandboxID", found->id}, {"state", model::state_name(found->state)}};
  out["sets"] = std::move(authors);
  out["notes"] = texts(found->policy->notes());
  return json::serialize(out);
}

Result<std::string> RulesApi::try_out(const std::string& sandbox, const std::string& body) const {
  TRY(SandboxPtr found, find(sandbox));
  TRY(json::value value, http::parse_json(body));
  if (!value.is_object()) return make_error(Code::kInvalid, "body: must be an object");
  http::Fields fields(value.get_object());
  std::string method = fields.text("method", 32).value_or("GET");
  std::string url = fields.text("url", 8192).value_or("");
  std::string label = fields.text("label", policy::kMaxName).value_or("");
  std::string address = fields.text("address", 64).value_or("");
  if (url.empty()) fields.refuse("url", "is required");
  TRY_VOID(fields.status());
  TRY(policy::WrittenRequest request, policy::read_written_request(method, url));
  request.label = label;
  request.unix_seconds = clock_.now().ms / 1000;
  if (!address.empty()) {
    TRY(request.address, parse_ip(address));
  }
  policy::RequestFacts facts = policy::facts_of(request);
  facts.at.who.sandbox = found->id;
  facts.at.who.tenant = found->tenant;
  facts.at.who.template_id = found->template_id;
  return json::serialize(policy::to_json(found->policy->connection(facts.at), found->policy->explain(facts)));
}

}  // namespace atl::gateway
