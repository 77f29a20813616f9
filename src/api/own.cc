// SPDX-License-Identifier: Apache-2.0
//
// Atoll's own surface, under /v1: sandboxes with their outcome, keys, tenants, templates, the journal.
#include <algorithm>

#include "api/create_request.h"
#include "api/e2b.h"
#include "api/page.h"
#include "api/shapes.h"
#include "base/units.h"

namespace atl::api {
namespace {

constexpr std::int64_t kMaxEvents = 1000;
constexpr std::size_t kMaxName = 100;
constexpr std::size_t kMaxPath = 4096;
constexpr std::int64_t kMaxPool = 1000;

Task<Result<Answer>> sandboxes(Services& services, Call& call) {
  CO_TRY(auto limit, read_limit(call, kMaxPage, kMaxEvents));
  control::ListQuery query;
  query.tenant = call.tenant();
  query.limit = limit;
  json::array out;
  for (const auto& row : services.sandboxes.list(query).rows) {
    json::object item = sandbox_full(*row);
    item["activity"] = activity_json(services.sandboxes.wakefulness(row->id));
    out.push_back(std::move(item));
  }
  if (call.query_text("ended") == "true" && out.size() < limit) {
    CO_TRY(auto ended, co_await services.sandboxes.ended(call.tenant(), limit - out.size()));
    for (const auto& row : ended) out.push_back(sandbox_full(row));
  }
  json::object body;
  body["sandboxes"] = std::move(out);
  co_return json_answer(200, body);
}

Task<Result<Answer>> sandbox(Services& services, Call& call) {
  auto why = co_await services.sandboxes.ask_wakefulness(call.tenant(), call.sandbox_id());
  CO_TRY(auto row, co_await services.sandboxes.find_any(call.tenant(), call.sandbox_id()));
  json::object out = sandbox_full(*row);
  if (why) out["activity"] = activity_json(*why);
  co_return json_answer(200, out);
}

Task<Result<Answer>> idle(Services& services, Call& call) {
  CO_TRY_VOID(services.sandboxes.get(call.tenant(), call.sandbox_id()));
  Fields body(call.body.get_object());
  auto idle_timeout = read_idle_timeout(services.sandboxes.options().max_timeout, body);
  std::optional<bool> auto_resume;
  if (auto resume = body.object("autoResume")) auto_resume = resume->boolean("enabled");
  if (!idle_timeout) body.refuse("idleTimeout", "is required; 0 for none");
  CO_TRY_VOID(body.status());
  std::string id = call.sandbox_id();
  CO_TRY(auto row,
         co_await services.sandboxes.set_idle_timeout(call.tenant(), id, *idle_timeout, auto_resume));
  json::object out = sandbox_full(*row);
  out["activity"] = activity_json(services.sandboxes.wakefulness(id));
  co_return json_answer(200, out);
}

Task<Result<Answer>> labels(Services& services, Call& call) {
  CO_TRY_VOID(services.sandboxes.get(call.tenant(), call.sandbox_id()));
  Fields body(call.body.get_object());
  auto labels = read_labels(body);
  if (!labels) body.refuse("labels", "is required");
  CO_TRY_VOID(body.status());
  std::string id = call.sandbox_id();
  CO_TRY(auto row, co_await services.sandboxes.add_labels(call.tenant(), id, std::move(*labels)));
  json::object out = sandbox_full(*row);
  out["activity"] = activity_json(services.sandboxes.wakefulness(id));
  co_return json_answer(200, out);
}

Task<Result<Answer>> events(Services& services, Call& call) {
  CO_TRY(auto after, call.query_number("after", 0, INT64_MAX));
  CO_TRY(auto limit, read_limit(call, kMaxPage, kMaxEvents));
  store::EventQuery query;
  query.tenant = call.tenant();
  query.after = after.value_or(0);
  query.limit = limit;
  query.sandbox = call.query_text("sandbox").value_or("");
  CO_TRY(auto rows, co_await services.sandboxes.events(query));
  json::array list;
  for (const auto& row : rows) list.push_back(event_json(row));
  json::object body;
  body["next"] = rows.empty() ? query.after : rows.back().seq;
  body["events"] = std::move(list);
  co_return json_answer(200, body);
}

Task<Result<Answer>> keys(Services& services, Call& call) {
  std::string tenant = call.query_text("tenant").value_or(call.tenant());
  if (!call.who.admin() && tenant != call.tenant())
    co_return make_error(Code::kDenied, "a member's key can only list the keys of its own tenant");
  if (!services.identity.find_tenant(tenant))
    co_return make_error(Code::kNotFound, "there is no tenant '{}'", tenant);
  json::array list;
  for (const auto& key : services.identity.keys(tenant)) list.push_back(key_json(key));
  json::object body;
  body["keys"] = std::move(list);
  co_return json_answer(200, body);
}

// A key can make keys of its own tenant and no stronger than itself; an admin's key can make any.
Task<Result<Answer>> create_key(Services& services, Call& call) {
  Fields body(call.body.get_object());
  std::string name = body.text("name", kMaxName).value_or("");
  std::string role_text = body.text("role", 16).value_or("member");
  std::string tenant = body.text("tenant", 64).value_or(call.tenant());
  if (name.empty()) body.refuse("name", "is required");
  if (role_text != "member" && role_text != "admin") body.refuse("role", "must be member or admin");
  CO_TRY_VOID(body.status());
  model::Role role = role_text == "admin" ? model::Role::kAdmin : model::Role::kMember;
  if (!call.who.admin() && (role == model::Role::kAdmin || tenant != call.tenant())) {
    co_return make_error(Code::kDenied, "a member's key can only make member keys of its own tenant");
  }
  if (!services.identity.find_tenant(tenant))
    co_return make_error(Code::kNotFound, "there is no tenant '{}'", tenant);
  CO_TRY(auto made, co_await services.identity.create_key(tenant, name, role));
  json::object out = key_json(made.row);
  out["key"] = made.text.reveal();
  out["tenant"] = made.row.tenant;
  co_return json_answer(201, out);
}

Task<Result<Answer>> revoke_key(Services& services, Call& call) {
  std::optional<std::string> tenant = call.tenant();
  if (call.who.admin()) tenant.reset();
  CO_TRY_VOID(co_await services.identity.revoke_key(std::move(tenant), call.params[0]));
  co_return no_content();
}

Task<Result<Answer>> tenants(Services& services, Call&) {
  json::array list;
  for (const auto& tenant : services.identity.tenants()) list.push_back(tenant_json(tenant));
  json::object body;
  body["tenants"] = std::move(list);
  co_return json_answer(200, body);
}

// "none" takes a word back; absent leaves it.
void change_word(Fields& body, const char* field, std::optional<model::IsolationWord>& word) {
  auto text = body.text(field, 32);
  if (!text) return;
  word = model::parse_isolation(*text);
  if (!word && *text != "none")
    body.refuse(field, "must be container, gvisor or microvm, or a risk (low, medium, high), or none");
}

void change_rule(Fields& body, model::IsolationRule& rule) {
  change_word(body, "isolation", rule.standard);
  change_word(body, "minIsolation", rule.minimum);
}

Task<Result<Answer>> create_tenant(Services& services, Call& call) {
  Fields body(call.body.get_object());
  std::string name = body.text("name", kMaxName).value_or("");
  auto most = [&body](const char* field, std::int64_t max, std::uint64_t unit = 1) {
    return static_cast<std::uint64_t>(body.integer(field, 1, max).value_or(0)) * unit;
  };
  model::Amounts limit;
  limit.sandboxes = static_cast<std::uint32_t>(most("maxSandboxes", 1'000'000));
  limit.memory_bytes = most("maxMemoryMB", 1 << 30, kMiB);
  limit.cpu_millis = most("maxCpuMillis", 1'000'000'000);
  limit.processes = most("maxProcesses", 1'000'000'000);
  limit.disk_bytes = most("maxDiskMB", 1 << 30, kMiB);
  model::IsolationRule isolation;
  change_rule(body, isolation);
  if (name.empty()) body.refuse("name", "is required");
  CO_TRY_VOID(body.status());
  CO_TRY(auto tenant, co_await services.identity.create_tenant(name, limit, isolation));
  co_return json_answer(201, tenant_json(tenant));
}

Task<Result<Answer>> change_tenant(Services& services, Call& call) {
  const model::Tenant* known = services.identity.find_tenant(call.params[0]);
  if (!known) co_return make_error(Code::kNotFound, "there is no tenant '{}'", call.params[0]);
  model::IsolationRule isolation = known->isolation;
  Fields body(call.body.get_object());
  change_rule(body, isolation);
  CO_TRY_VOID(body.status());
  CO_TRY(auto tenant, co_await services.identity.set_isolation(call.params[0], isolation));
  co_return json_answer(200, tenant_json(tenant));
}

// Templates that were asked for and are not there yet.
json::array builds_json(Services& services) {
  json::array out;
  for (const auto& build : services.catalog.missing_builds()) {
    json::object item;
    item["name"] = build.name;
    bool failed = build.note && build.note->state == model::BuildNote::State::kFailed;
    item["state"] = failed && !build.asked ? "failed" : build.under_way ? "building" : "waiting";
    item["brokenOff"] = build.broken_off();
    if (build.note) {
      item["percent"] = build.note->percent;
      item["text"] = build.note->text;
      item["since"] = format_rfc3339(build.note->since);
    }
    if (failed) item["notBefore"] = format_rfc3339(build.note->not_before);
    out.push_back(std::move(item));
  }
  return out;
}

Task<Result<Answer>> templates(Services& services, Call& call) {
  json::array list;
  for (const auto& row : services.catalog.list(call.tenant()))
    list.push_back(template_json(services.catalog, row));
  json::object body;
  body["templates"] = std::move(list);
  body["builds"] = builds_json(services);
  co_return json_answer(200, body);
}

void read_limits(Fields& body, model::Limits& limits) {
  auto mib = [](std::int64_t value) { return static_cast<std::uint64_t>(value) * kMiB; };
  if (auto value = body.integer("memoryMB", 16, 1 << 20)) limits.memory_bytes = mib(*value);
  if (auto value = body.integer("diskMB", 16, 1 << 24)) limits.disk_bytes = mib(*value);
  if (auto value = body.integer("cpuMillis", 10, 1'024'000))
    limits.cpu_millis = static_cast<std::uint32_t>(*value);
  if (auto value = body.integer("processes", 8, 4'000'000))
    limits.processes = static_cast<std::uint32_t>(*value);
  if (auto value = body.integer("openFiles", 64, 1'000'000))
    limits.open_files = static_cast<std::uint32_t>(*value);
}

Task<Result<Answer>> register_template(Services& services, Call& call) {
  Fields body(call.body.get_object());
  control::Catalog::NewBuild request;
  request.tenant = call.tenant();
  std::string name = body.text("name", 300).value_or("");
  std::string id = body.text("buildId", 64).value_or("");
  if (!model::valid_uuid(id)) body.refuse("buildId", "must be a UUID in lower case");
  // What is left out of one that is registered is as it is there.
  bool is_known = false;
  if (const model::Build* known = services.catalog.build(id)) {
    request.build = *known;
    is_known = true;
  }
  request.build.id = std::move(id);
  request.build.user = body.text("user", 64).value_or(request.build.user);
  request.build.workdir = body.text("workdir", kMaxPath).value_or(request.build.workdir);
  if (request.build.workdir.empty() || request.build.workdir.front() != '/')
    body.refuse("workdir", "must be an absolute path");
  request.build.envs = body.map("envs", 256, 8192).value_or(request.build.envs);
  read_limits(body, request.build.limits);
  Millis max_timeout = services.sandboxes.options().max_timeout;
  request.build.idle_timeout = read_idle_timeout(max_timeout, body).value_or(request.build.idle_timeout);
  request.is_public = body.boolean("public");
  if (auto size = body.integer("poolSize", 0, kMaxPool))
    request.pool_size = static_cast<std::uint32_t>(*size);
  change_rule(body, request.isolation);
  request.replace = body.boolean("replace").value_or(true);
  auto ref = model::parse_template_ref(name);
  if (!ref) body.refuse("name", ref.error().message());
  CO_TRY_VOID(body.status());
  request.name = std::move(*ref);
  CO_TRY(auto row, co_await services.catalog.register_build(std::move(request)));
  co_return json_answer(is_known ? 200 : 201, template_json(services.catalog, row));
}

Task<Result<Answer>> change_template(Services& services, Call& call) {
  const model::Template* known = services.catalog.find(call.tenant(), call.params[0]);
  control::Catalog::Settings settings;
  if (known) settings = control::Catalog::settings_of(*known);
  Fields body(call.body.get_object());
  change_rule(body, settings.isolation);
  if (auto size = body.integer("poolSize", 0, kMaxPool))
    settings.pool_size = static_cast<std::uint32_t>(*size);
  CO_TRY_VOID(body.status());
  CO_TRY(auto row, co_await services.catalog.change(call.tenant(), call.params[0], settings));
  co_return json_answer(200, template_json(services.catalog, row));
}

Task<Result<Answer>> remove_template(Services& services, Call& call) {
  CO_TRY_VOID(co_await services.catalog.remove(call.tenant(), call.params[0]));
  co_return no_content();
}

Task<Result<Answer>> status(Services& services, Call&) {
  auto now = services.sandboxes.status();
  json::object runner;
  runner["connected"] = now.runner_connected;
  if (now.runner_connected) {
    runner["version"] = now.runner.runner_version.str();
    runner["pid"] = now.runner.pid;
    runner["slotsTotal"] = now.runner.slots_total;
    std::uint32_t held = services.sandboxes.quota().held();
    runner["slotsFree"] = now.runner.slots_total - std::min(now.runner.slots_total, held);
  }
  json::object counts;
  counts["running"] = now.running;
  counts["ready"] = now.ready;
  counts["paused"] = now.paused;
  counts["ending"] = now.ending;
  counts["limit"] = now.capacity;
  json::object out;
  out["version"] = services.config.version;
  out["domain"] = services.config.domain;
  out["time"] = format_rfc3339(services.clock.now());
  out["ownerEpoch"] = now.owner_epoch;
  out["reconciled"] = now.reconciled;
  out["runner"] = std::move(runner);
  out["sandboxes"] = std::move(counts);
  out["host"] = host_json(services, now);
  out["templates"] = services.catalog.all().size();
  out["builds"] = builds_json(services);
  co_return json_answer(200, out);
}

Task<Result<Answer>> shutdown(Services& services, Call&) {
  CO_TRY(std::size_t count, co_await services.sandboxes.end_all());
  json::object out;
  out["ended"] = count;
  co_return json_answer(200, out);
}

}  // namespace

std::vector<Route> own_routes() {
  return {
      {"GET", "/v1/status", Auth::kAdmin, Body::kNone, status},
      {"POST", "/v1/shutdown", Auth::kAdmin, Body::kNone, shutdown},
      {"GET", "/v1/sandboxes", Auth::kKey, Body::kNone, sandboxes},
      {"GET", "/v1/sandboxes/{sandboxID}", Auth::kKey, Body::kNone, sandbox},
      {"PUT", "/v1/sandboxes/{sandboxID}/idle", Auth::kKey, Body::kRequired, idle},
      {"PUT", "/v1/sandboxes/{sandboxID}/labels", Auth::kKey, Body::kRequired, labels},
      {"GET", "/v1/events", Auth::kKey, Body::kNone, events},
      {"GET", "/v1/keys", Auth::kKey, Body::kNone, keys},
      {"POST", "/v1/keys", Auth::kKey, Body::kRequired, create_key},
      {"DELETE", "/v1/keys/{keyID}", Auth::kKey, Body::kNone, revoke_key},
      {"GET", "/v1/tenants", Auth::kAdmin, Body::kNone, tenants},
      {"POST", "/v1/tenants", Auth::kAdmin, Body::kRequired, create_tenant},
      {"PATCH", "/v1/tenants/{tenantID}", Auth::kAdmin, Body::kRequired, change_tenant},
      {"GET", "/v1/templates", Auth::kKey, Body::kNone, templates},
      {"POST", "/v1/templates", Auth::kAdmin, Body::kRequired, register_template},
      {"PATCH", "/v1/templates/{templateID}", Auth::kAdmin, Body::kRequired, change_template},
      {"DELETE", "/v1/templates/{templateID}", Auth::kAdmin, Body::kNone, remove_template},
  };
}

}  // namespace atl::api
