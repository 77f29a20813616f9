// SPDX-License-Identifier: Apache-2.0
//
// The E2B surface: lists of sandboxes, with filters, order and pages.
#include "api/e2b.h"
#include "api/page.h"
#include "api/shapes.h"
#include "base/text.h"

namespace atl::api {
namespace {

Error bad_query(std::string_view key, std::string_view what) {
  return make_error(Code::kInvalid, "query {}: {}", key, what).with_word("invalid_field");
}

// Clients encode the pairs twice (e2b-protocol §3.4): after the query's own decoding the whole text is
// decoded once more, split, and then each key and value once more.
Result<model::StringMap> read_metadata_filter(const Call& call) {
  model::StringMap out;
  auto raw = call.query_text("metadata");
  if (!raw || raw->empty()) return out;
  auto text = http::percent_decode(*raw, http::Plus::kSpace);
  if (!text) return bad_query("metadata", "bad percent-encoding");
  for (auto pair : split(*text, '&')) {
    std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos)
      return bad_query("metadata", "must be key=value pairs joined by '&'");
    auto key = http::percent_decode(pair.substr(0, equals), http::Plus::kSpace);
    auto value = http::percent_decode(pair.substr(equals + 1), http::Plus::kSpace);
    if (!key || !value) return bad_query("metadata", "bad percent-encoding");
    out[std::move(*key)] = std::move(*value);
  }
  return out;
}

// Both when none is named. One that is being paused counts as paused.
Result<void> read_states(const Call& call, control::ListQuery& query) {
  auto text = call.query_text("state");
  if (!text || text->empty()) return {};
  query.running = query.paused = false;
  for (auto name : split(*text, ',')) {
    if (name != "running" && name != "paused")
      return bad_query("state", "must be running, paused, or both joined by ','");
    (name == "running" ? query.running : query.paused) = true;
  }
  return {};
}

Result<control::ListQuery> read_query(const Services& services, const Call& call) {
  control::ListQuery query;
  query.tenant = call.tenant();
  TRY_VOID(read_states(call, query));
  TRY(query.metadata, read_metadata_filter(call));
  if (auto text = call.query_text("startedAfter"); text && !text->empty()) {
    query.started_after = parse_rfc3339(*text);
    if (!query.started_after) return bad_query("startedAfter", "must be a time as of RFC 3339");
  }
  if (auto text = call.query_text("template"); text && !text->empty()) {
    const model::Template* row = services.catalog.find(call.tenant(), *text);
    query.template_id = row ? row->id : "none";  // an unknown one matches nothing
  }
  std::string order = call.query_text("order").value_or("desc");
  if (order != "asc" && order != "desc") return bad_query("order", "must be asc or desc");
  bool ascending = order == "asc";
  query.order = ascending ? control::ListQuery::Order::kOldestFirst : control::ListQuery::Order::kNewestFirst;
  TRY(query.limit, read_limit(call, kMaxPage, kMaxPage));
  TRY(query.after, read_page(call, ascending));
  return query;
}

json::object listed(const Services& services, const model::SandboxRow& row) {
  json::object out = sandbox_listed(row);
  out["activity"] = activity_json(services.sandboxes.wakefulness(row.id));
  return out;
}

Task<Result<Answer>> list_v2(Services& services, Call& call) {
  CO_TRY(auto query, read_query(services, call));
  json::array out;
  auto page = services.sandboxes.list(query);
  out.reserve(page.rows.size());
  for (const auto& row : page.rows) out.push_back(listed(services, *row));
  Answer answer = json_answer(200, std::move(out));
  answer.headers.add("x-total-running", fmt::format("{}", page.total_running));
  bool ascending = query.order == control::ListQuery::Order::kOldestFirst;
  if (page.next) answer.headers.add("x-next-token", encode_page(*page.next, ascending));
  co_return answer;
}

// The old form has no pages: it gives all that run, bounded by the host's limit.
Task<Result<Answer>> list_v1(Services& services, Call& call) {
  control::ListQuery query;
  query.tenant = call.tenant();
  query.limit = services.sandboxes.options().max_sandboxes;
  query.paused = false;
  CO_TRY(query.metadata, read_metadata_filter(call));
  json::array out;
  for (const auto& row : services.sandboxes.list(query).rows) out.push_back(listed(services, *row));
  co_return json_answer(200, std::move(out));
}

}  // namespace

std::vector<Route> e2b_list_routes() {
  return {
      {"GET", "/sandboxes", Auth::kKey, Body::kNone, list_v1},
      {"GET", "/v2/sandboxes", Auth::kKey, Body::kNone, list_v2},
  };
}

}  // namespace atl::api
