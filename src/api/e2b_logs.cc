// SPDX-License-Identifier: Apache-2.0
//
// The E2B surface: logs of one sandbox. They are the journal's rows about it, also after its end.
#include "api/e2b.h"
#include "api/page.h"
#include "api/shapes.h"

namespace atl::api {
namespace {

constexpr std::int64_t kMaxLogs = 1000;
constexpr std::int64_t kV2Default = 100;

int severity(std::string_view level) {
  constexpr std::string_view kLevels[] = {"debug", "info", "warn", "error"};
  for (int i = 0; i < 4; ++i) {
    if (kLevels[i] == level) return i;
  }
  return -1;
}

Task<Result<std::vector<model::Event>>> load(Services& services, std::string tenant, std::string id,
                                             store::EventQuery query) {
  CO_TRY_VOID(co_await services.sandboxes.find_any(tenant, id));
  query.tenant = tenant;
  query.sandbox = id;
  co_return co_await services.sandboxes.events(std::move(query));
}

Task<Result<Answer>> logs_v1(Services& services, Call& call) {
  CO_TRY(auto start, call.query_number("start", 0, INT64_MAX));
  CO_TRY(auto limit, read_limit(call, kMaxLogs, kMaxLogs));
  store::EventQuery query;
  if (start) query.since = WallTime{*start};
  query.limit = limit;
  CO_TRY(auto events, co_await load(services, call.tenant(), call.sandbox_id(), std::move(query)));
  json::array lines;
  json::array entries;
  for (const auto& event : events) {
    json::object text;
    text["level"] = log_level(event);
    text["logger"] = "atoll";
    text["message"] = event.message;
    json::object line;
    line["timestamp"] = format_rfc3339(event.at);
    line["line"] = json::serialize(text);
    lines.push_back(std::move(line));
    entries.push_back(log_entry(event));
  }
  json::object out;
  out["logs"] = std::move(lines);
  out["logEntries"] = std::move(entries);
  co_return json_answer(200, out);
}

Task<Result<Answer>> logs_v2(Services& services, Call& call) {
  CO_TRY(auto cursor, call.query_number("cursor", 0, INT64_MAX));
  CO_TRY(auto limit, read_limit(call, kV2Default, kMaxLogs));
  std::string direction = call.query_text("direction").value_or("forward");
  if (direction != "forward" && direction != "backward") {
    co_return make_error(Code::kInvalid, "query direction: must be forward or backward")
        .with_word("invalid_field");
  }
  std::string level = call.query_text("level").value_or("debug");
  if (severity(level) < 0) {
    co_return make_error(Code::kInvalid, "query level: must be debug, info, warn or error")
        .with_word("invalid_field");
  }
  store::EventQuery query;
  query.newest_first = direction == "backward";
  if (cursor) (query.newest_first ? query.until : query.since) = WallTime{*cursor};
  if (severity(level) > severity("info")) query.type = kErrorEvent;
  query.search = call.query_text("search").value_or("");
  query.limit = limit;
  CO_TRY(auto events, co_await load(services, call.tenant(), call.sandbox_id(), std::move(query)));
  json::array entries;
  for (const auto& event : events) entries.push_back(log_entry(event));
  json::object out;
  out["logs"] = std::move(entries);
  co_return json_answer(200, out);
}

}  // namespace

std::vector<Route> e2b_log_routes() {
  return {
      {"GET", "/sandboxes/{sandboxID}/logs", Auth::kKey, Body::kNone, logs_v1},
      {"GET", "/v2/sandboxes/{sandboxID}/logs", Auth::kKey, Body::kNone, logs_v2},
  };
}

}  // namespace atl::api
