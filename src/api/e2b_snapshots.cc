// SPDX-License-Identifier: Apache-2.0
//
// The E2B surface for snapshots and forks, and Atoll's own view of snapshots.
#include "api/create_request.h"
#include "api/e2b.h"
#include "api/page.h"
#include "api/shapes.h"

namespace atl::api {
namespace {

constexpr std::size_t kMaxSnapshotName = 300;
constexpr std::int64_t kMaxChildren = 100;
constexpr Millis kForkDefault = std::chrono::seconds(300);

Error unknown(const std::string& reference) {
  return make_error(Code::kNotFound, "snapshot '{}' not found", reference).with_word("snapshot_not_found");
}

Task<Result<Answer>> create(Services& services, Call& call) {
  CO_TRY_VOID(services.sandboxes.get(call.tenant(), call.sandbox_id()));
  Fields body(call.body.get_object());
  control::SnapshotSpec spec;
  spec.tenant = call.tenant();
  spec.sandbox = call.sandbox_id();
  spec.name = body.text("name", kMaxSnapshotName).value_or("");
  spec.memory = body.boolean("memory").value_or(false);
  CO_TRY_VOID(body.status());
  CO_TRY(auto taken, co_await services.sandboxes.snapshot(std::move(spec)));
  co_return json_answer(201, snapshot_json(*taken));
}

Task<Result<Answer>> list(Services& services, Call& call) {
  CO_TRY(auto limit, read_limit(call, kMaxPage, kMaxPage));
  CO_TRY(auto after, read_page(call, false));
  control::SnapshotQuery query;
  query.tenant = call.tenant();
  query.sandbox = call.query_text("sandboxID").value_or("");
  query.name = call.query_text("name").value_or("");
  json::array out;
  std::optional<PageEnd> last;
  bool more = false;
  for (const auto& entry : services.sandboxes.snapshots().list(query)) {
    PageEnd here(entry->row.created_at.ms, entry->row.id);
    if (after && here >= *after) continue;
    more = out.size() == limit;
    if (more) break;
    out.push_back(snapshot_json(*entry));
    last = here;
  }
  Answer answer = json_answer(200, out);
  if (more) answer.headers.add("x-next-token", encode_page(*last, false));
  co_return answer;
}

json::object child_json(const Config& config, const Result<control::SandboxView>& child) {
  json::object out;
  if (child.ok()) {
    out["sandbox"] = sandbox_created(config, **child);
  } else {
    out["error"] = error_json(child.error());
  }
  return out;
}

Task<Result<Answer>> fork(Services& services, Call& call) {
  CO_TRY_VOID(services.sandboxes.get(call.tenant(), call.sandbox_id()));
  Fields body(call.body.get_object());
  control::ForkSpec spec;
  spec.tenant = call.tenant();
  spec.sandbox = call.sandbox_id();
  spec.count = static_cast<std::size_t>(body.integer("count", 1, kMaxChildren).value_or(1));
  spec.timeout = read_timeout(services.sandboxes.options().max_timeout, body, 1).value_or(kForkDefault);
  spec.memory = body.boolean("memory").value_or(false);
  CO_TRY_VOID(read_isolation(call, body, spec.isolation, spec.risk));
  CO_TRY_VOID(body.status());
  CO_TRY(auto children, co_await services.sandboxes.fork(std::move(spec)));
  json::array out;
  std::vector<std::string> made;
  for (const auto& child : children) {
    out.push_back(child_json(services.config, child));
    if (child.ok()) made.push_back((*child)->id);
  }
  Answer answer = json_answer(201, out);
  answer.on_undelivered = [&services, made] {
    for (const std::string& id : made) services.sandboxes.abandon(id);
  };
  co_return answer;
}

Task<Result<Answer>> own_list(Services& services, Call& call) {
  control::SnapshotQuery query;
  query.tenant = call.tenant();
  json::array rows;
  for (const auto& entry : services.sandboxes.snapshots().list(query)) rows.push_back(snapshot_json(*entry));
  json::object out;
  out["snapshots"] = std::move(rows);
  co_return json_answer(200, out);
}

Task<Result<Answer>> own_get(Services& services, Call& call) {
  auto found = services.sandboxes.snapshots().find(call.tenant(), call.params[0]);
  if (!found) co_return unknown(call.params[0]);
  co_return json_answer(200, snapshot_json(*found));
}

Task<Result<Answer>> own_remove(Services& services, Call& call) {
  CO_TRY_VOID(co_await services.sandboxes.delete_snapshot(call.tenant(), call.params[0]));
  co_return no_content();
}

Task<Result<Answer>> collect(Services& services, Call&) {
  CO_TRY(auto collected, co_await services.sandboxes.collect_snapshots());
  json::object out;
  out["copies"] = collected.copies;
  out["snapshots"] = collected.rows;
  out["bytes"] = collected.bytes;
  co_return json_answer(200, out);
}

}  // namespace

std::vector<Route> snapshot_routes() {
  return {
      {"POST", "/sandboxes/{sandboxID}/fork", Auth::kKey, Body::kOptional, fork},
      {"POST", "/sandboxes/{sandboxID}/snapshots", Auth::kKey, Body::kOptional, create},
      {"GET", "/snapshots", Auth::kKey, Body::kNone, list},
      {"GET", "/v1/snapshots", Auth::kKey, Body::kNone, own_list},
      {"GET", "/v1/snapshots/{snapshotID}", Auth::kKey, Body::kNone, own_get},
      {"DELETE", "/v1/snapshots/{snapshotID}", Auth::kKey, Body::kNone, own_remove},
      {"POST", "/v1/snapshots/collect", Auth::kAdmin, Body::kNone, collect},
  };
}

}  // namespace atl::api
