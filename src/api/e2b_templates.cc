// SPDX-License-Identifier: Apache-2.0
//
// The E2B surface for templates as far as clients need it without builds: lookups, lists, removal, teams.
#include "api/e2b.h"
#include "api/page.h"
#include "api/shapes.h"

namespace atl::api {
namespace {

Error unknown(const std::string& name) {
  return make_error(Code::kNotFound, "template '{}' not found", name).with_word("template_not_found");
}

// Another tenant's template answers as an unknown one does; E2B's 403 would tell that it exists.
Task<Result<Answer>> alias(Services& services, Call& call) {
  const model::Template* row = services.catalog.find(call.tenant(), call.params[0]);
  if (!row) co_return unknown(call.params[0]);
  json::object out;
  out["templateID"] = row->id;
  out["public"] = row->is_public;
  co_return json_answer(200, out);
}

Task<Result<Answer>> list(Services& services, Call& call) {
  json::array out;
  for (const auto& row : services.catalog.list(call.tenant()))
    out.push_back(template_json(services.catalog, row));
  co_return json_answer(200, out);
}

Task<Result<Answer>> list_v2(Services& services, Call& call) {
  CO_TRY(auto limit, read_limit(call, kMaxPage, kMaxPage));
  CO_TRY(auto after, read_page(call, true));
  json::array out;
  std::optional<PageEnd> last;
  bool more = false;
  for (const auto& row : services.catalog.list(call.tenant())) {
    PageEnd here(row.created_at.ms, row.id);
    if (after && here <= *after) continue;
    more = out.size() == limit;
    if (more) break;
    out.push_back(template_json(services.catalog, row));
    last = here;
  }
  Answer answer = json_answer(200, out);
  if (more) answer.headers.add("x-next-token", encode_page(*last, true));
  co_return answer;
}

Task<Result<Answer>> get(Services& services, Call& call) {
  const model::Template* row = services.catalog.find(call.tenant(), call.params[0]);
  if (!row) co_return unknown(call.params[0]);
  json::object out = template_json(services.catalog, *row);
  json::array builds;
  for (const auto& build : services.catalog.builds_of(row->id)) builds.push_back(build_json(build));
  out["builds"] = std::move(builds);
  co_return json_answer(200, out);
}

Task<Result<Answer>> tags(Services& services, Call& call) {
  const model::Template* row = services.catalog.find(call.tenant(), call.params[0]);
  if (!row) co_return unknown(call.params[0]);
  json::array out;
  for (const auto& [tag, id] : row->tags) {
    const model::Build* build = services.catalog.build(id);
    json::object item;
    item["tag"] = tag;
    item["buildID"] = id;
    item["createdAt"] = format_rfc3339(build ? build->created_at : row->updated_at);
    out.push_back(std::move(item));
  }
  co_return json_answer(200, out);
}

// Clients remove a snapshot as if it were a template.
Task<Result<Answer>> remove(Services& services, Call& call) {
  if (services.sandboxes.snapshots().find(call.tenant(), call.params[0])) {
    CO_TRY_VOID(co_await services.sandboxes.delete_snapshot(call.tenant(), call.params[0]));
    co_return no_content();
  }
  CO_TRY_VOID(co_await services.catalog.remove(call.tenant(), call.params[0]));
  co_return no_content();
}

Task<Result<Answer>> teams(Services& services, Call& call) {
  const model::Tenant* tenant = services.identity.find_tenant(call.tenant());
  json::object team;
  team["teamID"] = call.tenant();
  team["name"] = tenant ? tenant->name : std::string();
  team["apiKey"] = "";  // stored hashed, so it cannot be shown
  team["isDefault"] = true;
  co_return json_answer(200, json::array({std::move(team)}));
}

}  // namespace

std::vector<Route> e2b_template_routes() {
  return {
      {"GET", "/templates", Auth::kKey, Body::kNone, list},
      {"GET", "/v2/templates", Auth::kKey, Body::kNone, list_v2},
      {"GET", "/templates/aliases/{alias}", Auth::kKey, Body::kNone, alias},
      {"GET", "/templates/{templateID}", Auth::kKey, Body::kNone, get},
      {"GET", "/templates/{templateID}/tags", Auth::kKey, Body::kNone, tags},
      {"DELETE", "/templates/{templateID}", Auth::kKey, Body::kNone, remove},
      {"GET", "/teams", Auth::kKey, Body::kNone, teams},
  };
}

}  // namespace atl::api
