// SPDX-License-Identifier: Apache-2.0
//
// atoll exec: run a command in a sandbox that exists.
#include <CLI/CLI.hpp>

#include "apps/cli/attach.h"
#include "apps/cli/parse.h"
#include "apps/cli/registry.h"
#include "model/sandbox.h"

namespace atl::cli {
namespace {

constexpr char kExamples[] =
    "  # list the home directory, as root, in /\n"
    "  atoll exec iabcdefghij0123456789 ls -la\n"
    "  atoll exec -u root -w / iabcdefghij0123456789 id\n"
    "  # standard input is passed on when it is a pipe or a file\n"
    "  echo 'print(2)' | atoll exec iabcdefghij0123456789 python3 -\n"
    "  # code that must not send anything\n"
    "  atoll exec --network none iabcdefghij0123456789 python3 job.py\n"
    "  # what rules with the label 'git' let through, and nothing else\n"
    "  atoll exec --label git iabcdefghij0123456789 git pull\n"
    "\n"
    "  Exit status: the command's own; 124 time limit, 125 Atoll failed, 126 not executable,\n"
    "  127 no such command, 128+N ended by signal N.";

struct Options {
  std::string sandbox, directory, user, timeout, network, label;
  std::vector<std::string> env, command;
  bool terminal = false, no_stdin = false;
};

Result<AttachOptions> make_attach(const Options& options, const Globals& globals) {
  if (options.command.empty()) {
    return make_error(Code::kInvalid, "say which command to run")
        .with_word("usage")
        .with_hint("for a shell: atoll shell ID");
  }
  AttachOptions attach;
  attach.json = globals.json;
  attach.spec.command = options.command.front();
  attach.spec.arguments.assign(options.command.begin() + 1, options.command.end());
  attach.spec.directory = options.directory;
  TRY(attach.spec.environment, parse_env(options.env));
  if (!options.network.empty()) attach.spec.environment["ATOLL_NETWORK"] = options.network;
  if (!options.label.empty()) attach.spec.environment["ATOLL_LABEL"] = options.label;
  if (!options.timeout.empty()) {
    TRY(std::chrono::seconds limit, parse_duration(options.timeout));
    attach.spec.limit = limit;
  }
  TRY_VOID(want_terminal(options.terminal, attach));
  if (!options.terminal) attach.forward_stdin = !options.no_stdin && stdin_has_data();
  return attach;
}

// A label that the sandbox has already stays as it is.
Task<Result<void>> add_label(std::shared_ptr<ApiClient> api, std::string sandbox, std::string label) {
  if (label.empty()) co_return success();
  if (!model::valid_sandbox_id(sandbox)) co_return success();  // said by what comes next
  json::object body;
  body["labels"] = json::array{json::value(label)};
  auto reply = co_await api->call("PUT", "/v1/sandboxes/" + sandbox + "/labels", std::move(body));
  if (!reply.ok()) co_return std::move(reply).error();
  co_return success();
}

Task<Result<int>> exec(Session& session, const Options& options, AttachOptions how, std::string instance) {
  CO_TRY(auto api, ApiClient::open(session, instance));
  CO_TRY_VOID(co_await add_label(api, options.sandbox, options.label));
  CO_TRY(auto guest, co_await GuestClient::open(api, options.sandbox, options.user));
  co_return co_await attach(guest, std::move(how));
}

}  // namespace

void register_exec(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app = commands.add(
      nullptr, "exec", "run a command in a running sandbox", kExamples,
      [options](const Globals& globals) -> Result<int> {
        TRY(AttachOptions how, make_attach(*options, globals));
        return Session().run([&](Session& s) { return exec(s, *options, how, globals.instance); });
      });
  commands.add_list(app, "-e,--env", "KEY=VALUE", &options->env, "set a variable; KEY alone passes yours on");
  app.add_option("-w,--workdir", options->directory, "directory to run in")->type_name("DIR");
  app.add_option("-u,--user", options->user, "user to run as")->type_name("NAME");
  app.add_option("--timeout", options->timeout, "end the command after this time")->type_name("TIME");
  app.add_option("--network", options->network, "none: it and all that it starts can make no socket")
      ->type_name("WHICH")
      ->check(CLI::IsMember({"none"}));
  app.add_option("--label", options->label, "the name under which rules know what it sends")
      ->type_name("LABEL");
  app.add_flag("-t,--tty", options->terminal, "give it a terminal");
  app.add_flag("-n,--no-stdin", options->no_stdin, "do not pass standard input on");
  app.add_option("ID", options->sandbox, "the sandbox")->required();
  commands.take_rest(app, "COMMAND [ARGUMENT...]", &options->command);
}

}  // namespace atl::cli
