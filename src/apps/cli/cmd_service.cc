// SPDX-License-Identifier: Apache-2.0
//
// atoll service: servers outside that the tenant's sandboxes reach under a name.
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
  std::string name, url;
};

Task<Result<int>> set(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  json::value request = json::object{{"name", options.name}, {"url", options.url}};
  CO_TRY(ApiReply made, co_await api->call("POST", "/v1/services", std::move(request)));
  if (globals.json)
    print_json(made.body);
  else
    write_out(
        fmt::format("in sandboxes: http://atoll.internal/svc/{}/\n", printable(text_at(made.body, "name"))));
  co_return kExitOk;
}

std::vector<std::string> row_of(const json::value& one) {
  return {printable(text_at(one, "name")), printable(text_at(one, "url"))};
}

Task<Result<int>> list(Session& session, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  CO_TRY(json::array all, co_await api->list("/v1/services"));
  print_list(all, globals.json, {"NAME", "URL"}, row_of);
  co_return kExitOk;
}

Task<Result<int>> remove(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  std::string path = "/v1/services/" + http::percent_encode(options.name);
  auto done = co_await api->call("DELETE", path);
  if (!done.ok() && done.error().code() == Code::kNotFound) {
    co_return make_error(Code::kNotFound, "there is no service {}", printable(options.name))
        .with_hint("list them with 'atoll service list'");
  }
  if (!done.ok()) co_return std::move(done).error();
  if (globals.json)
    print_json(json::object({{"removed", options.name}}));
  else
    write_out("removed " + options.name + "\n");
  co_return kExitOk;
}

}  // namespace

void register_service(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& service =
      commands.add(nullptr, "service", "name servers outside that sandboxes reach under /svc/",
                   "  atoll service set anthropic https://api.anthropic.com\n  atoll service list", nullptr);
  CLI::App& set_app =
      commands.add(&service, "set", "name a server, or give a name another one",
                   "  # in a sandbox: http://atoll.internal/svc/openai/, with $ATOLL_TOKEN as the key\n"
                   "  atoll service set openai https://api.openai.com/v1",
                   [options](const Globals& globals) -> Result<int> {
                     return Session().run([&](Session& s) { return set(s, *options, globals); });
                   });
  set_app.add_option("NAME", options->name, "letters, digits, '.', '_' and '-'")->required();
  set_app.add_option("URL", options->url, "https://HOST[:PORT][/PATH]")->required();
  commands.add(&service, "list", "show them", "  atoll service list --json",
               [](const Globals& globals) -> Result<int> {
                 return Session().run([&](Session& s) { return list(s, globals); });
               });
  CLI::App& remove_app = commands.add(
      &service, "rm", "remove one", "  atoll service rm openai", [options](const Globals& globals) {
        return Session().run([&](Session& s) { return remove(s, *options, globals); });
      });
  remove_app.add_option("NAME", options->name, "its name")->required();
}

}  // namespace atl::cli
