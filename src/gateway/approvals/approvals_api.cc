// SPDX-License-Identifier: Apache-2.0
#include "gateway/approvals/approvals_api.h"

#include "base/text.h"
#include "http/json.h"

namespace atl::gateway {
namespace {

namespace json = boost::json;
using async::Task;

constexpr std::string_view kBase = "/v1/approvals/";
constexpr std::size_t kMaxBody = 16 * 1024;
constexpr std::size_t kUsualListed = 100;
constexpr std::size_t kMaxBy = 512;

Error unknown() { return make_error(Code::kNotFound, "no such call"); }

json::object error_json(const Error& error) {
  json::object out;
  out["code"] = http_status(error.code());
  out["message"] = error.message();
  out["error_code"] = std::string_view(error.word());
  if (!error.hint().empty()) out["hint"] = error.hint();
  return out;
}

struct Word {
  Approvals::Decision decision = Approvals::Decision::kDeny;
  std::string reason;
};

Result<Word> read_word(const std::string& body) {
  TRY(json::value value, http::parse_json(body));
  if (!value.is_object()) return make_error(Code::kInvalid, "body: must be an object");
  http::Fields fields(value.get_object());
  Word out;
  std::string decision = fields.text("decision", 16).value_or("");
  if (decision == "approve") out.decision = Approvals::Decision::kApprove;
  if (decision != "approve" && decision != "deny")
    fields.refuse("decision", "must be \"approve\" or \"deny\"");
  out.reason = fields.text("reason", ApprovalsApi::kMaxReason).value_or("");
  if (printable(out.reason) != out.reason) fields.refuse("reason", "must not contain control characters");
  auto status = fields.status();
  if (!status.ok()) return std::move(status).error().with_word("invalid_field");
  return out;
}

}  // namespace

bool ApprovalsApi::takes(const http::RequestHead& request) { return request.path().starts_with(kBase); }

Task<> ApprovalsApi::handle(http::Exchange& exchange) {
  auto told = co_await answer(exchange);
  http::ResponseHead head;
  head.status = told.ok() ? 200 : http_status(told.error().code());
  head.headers.add("content-type", "application/json");
  json::object body = told.ok() ? *std::move(told) : error_json(told.error());
  (void)co_await exchange.respond(std::move(head), json::serialize(body));
}

Task<Result<json::object>> ApprovalsApi::answer(http::Exchange& exchange) {
  const http::RequestHead& request = exchange.request();
  std::vector<std::string> path;
  for (auto part : split(request.path().substr(kBase.size()), '/')) {
    auto decoded = http::percent_decode(part);
    if (!decoded || decoded->empty()) co_return unknown();
    path.push_back(std::move(*decoded));
  }
  if (path.size() == 1 && request.method == "GET") co_return list(path[0], request.query());
  if (path.size() != 2) co_return unknown();
  if (request.method == "GET") {
    CO_TRY(Approval found, approvals_.get(path[0], path[1]));
    co_return approval_json(found, Shown::kWhole);
  }
  if (request.method != "POST") co_return unknown();
  CO_TRY(auto query, http::parse_query(request.query()));
  std::string by = http::query_value(query, "by").value_or("");
  if (by.empty() || by.size() > kMaxBy) co_return make_error(Code::kInvalid, "by: who decides is required");
  CO_TRY(std::string text, co_await exchange.read_all(kMaxBody));
  CO_TRY(Word word, read_word(text));
  CO_TRY(Approval decided, co_await approvals_.decide(path[0], path[1], word.decision, by, word.reason));
  co_return approval_json(decided, Shown::kWhole);
}

Result<json::object> ApprovalsApi::list(const std::string& tenant, std::string_view query) const {
  TRY(auto pairs, http::parse_query(query));
  std::optional<ApprovalState> state;
  if (auto name = http::query_value(pairs, "state")) {
    state = parse_approval_state(*name);
    if (!state) {
      return make_error(Code::kInvalid, "query state: there is no state '{}'", printable(*name))
          .with_word("invalid_field")
          .with_hint("pending, approved, denied, expired, cancelled or used");
    }
  }
  std::size_t limit = kUsualListed;
  if (auto text = http::query_value(pairs, "limit")) {
    auto number = parse_number<std::size_t>(*text);
    if (!number || *number == 0 || *number > kMostListed) {
      return make_error(Code::kInvalid, "query limit: must be a number from 1 to {}", kMostListed)
          .with_word("invalid_field");
    }
    limit = *number;
  }
  json::array out;
  std::string sandbox = http::query_value(pairs, "sandbox").value_or("");
  for (const Approval& one : approvals_.list(tenant, sandbox, state, limit))
    out.push_back(approval_json(one, Shown::kShort));
  return json::object{{"approvals", std::move(out)}};
}

}  // namespace atl::gateway
