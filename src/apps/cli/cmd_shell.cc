// SPDX-License-Identifier: Apache-2.0
//
// atoll shell: an interactive terminal in a sandbox.
#include <CLI/CLI.hpp>

#include "apps/cli/attach.h"
#include "apps/cli/parse.h"
#include "apps/cli/registry.h"

namespace atl::cli {
namespace {

constexpr char kExamples[] =
    "  # a login shell in a running sandbox\n"
    "  atoll shell iabcdefghij0123456789\n"
    "  # as root, with another shell\n"
    "  atoll shell -u root --command sh iabcdefghij0123456789\n"
    "\n"
    "  The session survives a dropped connection and a restart of Atoll. If the other side hangs,\n"
    "  type Enter ~ . to leave; the shell in the sandbox goes on.";

struct Options {
  std::string sandbox, user, directory, command;
  std::vector<std::string> env;
};

Task<Result<int>> shell(Session& session, const Options& options, std::string instance) {
  AttachOptions how;
  how.spec.command = options.command.empty() ? "/bin/bash" : options.command;
  if (options.command.empty()) how.spec.arguments = std::vector<std::string>({"-i", "-l"});
  how.spec.directory = options.directory;
  CO_TRY(how.spec.environment, parse_env(options.env));
  CO_TRY_VOID(want_terminal(true, how));
  CO_TRY(auto api, ApiClient::open(session, instance));
  CO_TRY(auto guest, co_await GuestClient::open(api, options.sandbox, options.user));
  co_return co_await attach(guest, std::move(how));
}

}  // namespace

void register_shell(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app =
      commands.add(nullptr, "shell", "open a terminal in a running sandbox", kExamples,
                   [options](const Globals& globals) -> Result<int> {
                     return Session().run([&](Session& s) { return shell(s, *options, globals.instance); });
                   });
  commands.add_list(app, "-e,--env", "KEY=VALUE", &options->env, "set a variable; KEY alone passes yours on");
  app.add_option("-u,--user", options->user, "user to work as")->type_name("NAME");
  app.add_option("-w,--workdir", options->directory, "directory to begin in")->type_name("DIR");
  app.add_option("--command", options->command, "run this instead of bash")->type_name("PROGRAM");
  app.add_option("ID", options->sandbox, "the sandbox")->required();
}

}  // namespace atl::cli
