// SPDX-License-Identifier: Apache-2.0
//
// atoll key: API keys.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/api_client.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "apps/cli/registry.h"
#include "base/text.h"

namespace atl::cli {
namespace {

struct Options {
  std::string name, id, role = "member", tenant;
};

Task<Result<int>> create(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  json::object fields{{"name", options.name}, {"role", options.role}};
  if (!options.tenant.empty()) fields["tenant"] = options.tenant;
  json::value body = std::move(fields);
  CO_TRY(ApiReply made, co_await api->call("POST", "/v1/keys", std::move(body)));
  if (globals.json) {
    print_json(made.body);
    co_return kExitOk;
  }
  write_out(text_at(made.body, "key") + "\n");
  print_note(fmt::format("this is the only time that the key is shown; 'atoll key revoke {}' ends it",
                         text_at(made.body, "id")));
  co_return kExitOk;
}

std::vector<std::string> row_of(const json::value& key) {
  return {printable(text_at(key, "id")), printable(text_at(key, "name")),
          printable(text_at(key, "prefix")) + "…", printable(text_at(key, "role")),
          printable(text_at(key, "createdAt"))};
}

Task<Result<int>> list(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  std::string path = "/v1/keys";
  if (!options.tenant.empty()) path += "?tenant=" + http::percent_encode(options.tenant);
  CO_TRY(json::array keys, co_await api->list(path));
  print_list(keys, globals.json, {"ID", "NAME", "KEY", "ROLE", "CREATED"}, row_of);
  co_return kExitOk;
}

Task<Result<int>> revoke(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  std::string path = "/v1/keys/" + http::percent_encode(options.id);
  auto done = co_await api->call("DELETE", path);
  if (!done.ok() && done.error().code() == Code::kNotFound) {
    co_return make_error(Code::kNotFound, "there is no key {}", printable(options.id))
        .with_hint("list ids with 'atoll key list'");
  }
  if (!done.ok()) co_return std::move(done).error();
  if (globals.json)
    print_json(json::object({{"revoked", options.id}}));
  else
    write_out("revoked " + options.id + "\n");
  co_return kExitOk;
}

}  // namespace

void register_key(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& key = commands.add(nullptr, "key", "make, list and revoke API keys",
                               "  atoll key create ci\n  atoll key list", nullptr);
  CLI::App& create_app =
      commands.add(&key, "create", "make a key and print it, once",
                   "  # a key for a program\n  export E2B_API_KEY=$(atoll key create ci)",
                   [options](const Globals& globals) -> Result<int> {
                     return Session().run([&](Session& s) { return create(s, *options, globals); });
                   });
  create_app.add_option("NAME", options->name, "what the key is for")->required();
  create_app.add_option("--role", options->role, "member (default) or admin")
      ->type_name("ROLE")
      ->check(CLI::IsMember({"member", "admin"}));
  create_app.add_option("--tenant", options->tenant, "for this tenant (default: your own)")->type_name("ID");
  CLI::App& list_app =
      commands.add(&key, "list", "show the keys, without their text", "  atoll key list --json",
                   [options](const Globals& globals) -> Result<int> {
                     return Session().run([&](Session& s) { return list(s, *options, globals); });
                   });
  list_app.add_option("--tenant", options->tenant, "of this tenant (default: your own)")->type_name("ID");
  CLI::App& revoke_app =
      commands.add(&key, "revoke", "end a key at once", "  atoll key revoke 3f0c…",
                   [options](const Globals& globals) -> Result<int> {
                     return Session().run([&](Session& s) { return revoke(s, *options, globals); });
                   });
  revoke_app.add_option("KEY", options->id, "the key's id, from 'atoll key list'")->required();
}

}  // namespace atl::cli
