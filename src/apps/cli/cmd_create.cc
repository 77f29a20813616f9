// SPDX-License-Identifier: Apache-2.0
//
// atoll create: a sandbox that stays until its time is over.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "apps/cli/parse.h"
#include "apps/cli/registry.h"
#include "apps/cli/sandbox_api.h"
#include "apps/cli/ticker.h"

namespace atl::cli {
namespace {

constexpr char kExamples[] =
    "  # prints the id, so that a script can keep it\n"
    "  id=$(atoll create --lifetime 1h)\n"
    "  atoll exec $id uname -a\n"
    "  atoll kill $id\n"
    "  # pauses when it had no work for 10 minutes, and wakes on any request\n"
    "  atoll create --lifetime 24h --idle-timeout 10m\n"
    "  # labelled, with a variable for every command, and without network\n"
    "  atoll create -m task=42 -e MODE=test --no-internet\n"
    "  # for code that nobody has reviewed; refused where nothing strong enough is usable\n"
    "  atoll create --risk medium";

struct Options {
  std::string template_name = "base", lifetime = "5m", risk, isolation, idle_timeout;
  std::vector<std::string> env, metadata;
  bool no_internet = false;
};

Task<Result<int>> create(Session& session, const Options& options, const Globals& globals) {
  CreateOptions create;
  create.template_name = options.template_name;
  create.internet = !options.no_internet;
  create.risk = options.risk;
  create.isolation = options.isolation;
  CO_TRY(create.lifetime, parse_duration(options.lifetime));
  CO_TRY(create.idle_timeout, parse_idle(options.idle_timeout));
  CO_TRY(create.environment, parse_env(options.env));
  CO_TRY(create.metadata, parse_metadata(options.metadata));
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  auto ticker = std::make_unique<Ticker>(session, "creating a sandbox");
  CO_TRY(auto guest, co_await create_sandbox(api, create, std::string()));
  ticker.reset();
  if (!globals.json) {
    write_out(guest->sandbox() + "\n");
    co_return kExitOk;
  }
  std::string path = "/sandboxes/" + guest->sandbox();
  CO_TRY(ApiReply detail, co_await api->call("GET", path));
  print_json(detail.body);
  co_return kExitOk;
}

}  // namespace

void register_create(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app =
      commands.add(nullptr, "create", "create a sandbox and print its id", kExamples,
                   [options](const Globals& globals) -> Result<int> {
                     return Session().run([&](Session& s) { return create(s, *options, globals); });
                   });
  app.add_option("-T,--template", options->template_name, "what the sandbox starts from (default: base)")
      ->type_name("NAME");
  app.add_option("--lifetime,--timeout", options->lifetime, "when it is killed (default: 5m)")
      ->type_name("TIME");
  app.add_option("--idle-timeout", options->idle_timeout,
                 "pause it after this time without work; 'off': never (default: as its template says)")
      ->type_name("TIME");
  commands.add_list(app, "-e,--env", "KEY=VALUE", &options->env, "set a variable for every command in it");
  commands.add_list(app, "-m,--metadata", "KEY=VALUE", &options->metadata, "label the sandbox");
  app.add_flag("--no-internet", options->no_internet, "close the sandbox's network");
  add_isolation_options(app, options->risk, options->isolation);
}

}  // namespace atl::cli
