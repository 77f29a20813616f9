// SPDX-License-Identifier: Apache-2.0
//
// atoll tenant: the tenants of this installation, and which isolation their sandboxes get.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/api_client.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/isolation_rule.h"
#include "apps/cli/output.h"
#include "apps/cli/registry.h"
#include "base/text.h"

namespace atl::cli {
namespace {

struct Options {
  std::string name;
  IsolationChange isolation;
};

Task<Result<json::array>> fetch_tenants(std::shared_ptr<ApiClient> api) {
  CO_TRY(ApiReply reply, co_await api->call("GET", "/v1/tenants"));
  const json::value* rows = find_at(reply.body, "tenants");
  if (rows == nullptr || !rows->is_array())
    co_return make_error(Code::kCorrupt, "GET /v1/tenants: no tenants in the answer");
  co_return rows->as_array();
}

std::string limit_text(const json::value& row) {
  std::int64_t most = number_at(row, "maxSandboxes");
  return most == 0 ? "-" : fmt::format("{}", most);
}

Task<Result<int>> list(Session& session, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  CO_TRY(json::array rows, co_await fetch_tenants(api));
  if (globals.json) {
    print_json(rows);
    co_return kExitOk;
  }
  Table table({"NAME", "ID", "SANDBOXES", "ISOLATION", "CREATED"});
  for (const json::value& row : rows) {
    table.add({printable(text_at(row, "name")), printable(text_at(row, "id")), limit_text(row),
               printable(rule_text(row)), printable(text_at(row, "createdAt"))});
  }
  print_table(table);
  co_return kExitOk;
}

void show(const json::value& row, const Globals& globals) {
  if (globals.json)
    print_json(row);
  else
    write_out(fmt::format("{} ({}): isolation {}\n", printable(text_at(row, "name")),
                          printable(text_at(row, "id")), printable(rule_text(row))));
}

Task<Result<int>> create(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  json::object fields{{"name", options.name}};
  put_isolation(fields, options.isolation);
  json::value body = std::move(fields);
  CO_TRY(ApiReply made, co_await api->call("POST", "/v1/tenants", std::move(body)));
  show(made.body, globals);
  co_return kExitOk;
}

Task<Result<int>> set(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(json::object change, change_json(options.isolation));
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  CO_TRY(json::array rows, co_await fetch_tenants(api));
  std::string id;
  for (const json::value& row : rows) {
    if (text_at(row, "id") == options.name || text_at(row, "name") == options.name) id = text_at(row, "id");
  }
  if (id.empty()) {
    co_return make_error(Code::kNotFound, "there is no tenant '{}'", printable(options.name))
        .with_hint("list them with 'atoll tenant list'");
  }
  std::string path = "/v1/tenants/" + http::percent_encode(id);
  json::value body = std::move(change);
  CO_TRY(ApiReply reply, co_await api->call("PATCH", path, std::move(body)));
  show(reply.body, globals);
  co_return kExitOk;
}

}  // namespace

void register_tenant(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app =
      commands.add(nullptr, "tenant", "list, make and change tenants",
                   "  atoll tenant list\n  atoll tenant set default --min-isolation gvisor", nullptr);
  commands.add(&app, "list", "show the tenants", "  atoll tenant list --json",
               [](const Globals& globals) -> Result<int> {
                 return Session().run([&](Session& s) { return list(s, globals); });
               });
  CLI::App& create_app =
      commands.add(&app, "create", "make a tenant", "  atoll tenant create research --min-isolation medium",
                   [options](const Globals& globals) -> Result<int> {
                     return Session().run([&](Session& s) { return create(s, *options, globals); });
                   });
  create_app.add_option("NAME", options->name, "its name")->required();
  add_isolation_change(create_app, options->isolation);
  CLI::App& set_app =
      commands.add(&app, "set", "say which isolation its sandboxes get",
                   "  # a default for those who ask for none, and what nobody gets less than\n"
                   "  atoll tenant set research --isolation high --min-isolation medium",
                   [options](const Globals& globals) -> Result<int> {
                     return Session().run([&](Session& s) { return set(s, *options, globals); });
                   });
  set_app.add_option("NAME", options->name, "its name or id")->required();
  add_isolation_change(set_app, options->isolation);
}

}  // namespace atl::cli
