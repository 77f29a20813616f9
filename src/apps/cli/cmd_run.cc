// SPDX-License-Identifier: Apache-2.0
//
// atoll run: create a sandbox, run one command in it, stream, destroy.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/attach.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "apps/cli/parse.h"
#include "apps/cli/registry.h"
#include "apps/cli/sandbox_api.h"
#include "apps/cli/terminal.h"
#include "apps/cli/ticker.h"

namespace atl::cli {
namespace {

// While a command is attached the deadline is pushed on again and again; if we are killed, the sandbox goes
// soon.
constexpr std::chrono::seconds kLease(120);

constexpr char kExamples[] =
    "  # one command in a fresh sandbox that is gone afterwards\n"
    "  atoll run python3 -c 'print(1)'\n"
    "  # feed it, give it a variable and at most a minute\n"
    "  cat data.csv | atoll run --env MODE=fast --timeout 1m python3 -c 'import sys; "
    "print(len(sys.stdin.read()))'\n"
    "  # a shell to play in\n"
    "  atoll run -t bash\n"
    "  # keep the sandbox for an hour and look into it later\n"
    "  atoll run --keep --lifetime 1h sh -c 'make test'\n"
    "\n"
    "  Exit status: the command's own; 124 time limit, 125 Atoll failed, 126 not executable,\n"
    "  127 no such command, 128+N ended by signal N.";

struct Options {
  std::string template_name = "base";
  std::vector<std::string> env, metadata, command;
  std::string directory, user, timeout, lifetime = "5m", risk, isolation;
  bool terminal = false, keep = false, no_stdin = false, no_internet = false;
};

struct Plan {
  CreateOptions create;
  AttachOptions attach;
  std::string user;
  bool keep = false;
  std::chrono::seconds lifetime{};
};

Result<Plan> make_plan(const Options& options, const Globals& globals) {
  if (options.command.empty()) {
    return make_error(Code::kInvalid, "say which command to run")
        .with_word("usage")
        .with_hint("for example: atoll run python3 -c 'print(1)'");
  }
  Plan plan;
  plan.create.template_name = options.template_name;
  plan.create.internet = !options.no_internet;
  plan.create.risk = options.risk;
  plan.create.isolation = options.isolation;
  TRY(plan.create.metadata, parse_metadata(options.metadata));
  plan.create.lifetime = kLease;
  TRY(plan.lifetime, parse_duration(options.lifetime));
  plan.keep = options.keep;
  plan.user = options.user;
  plan.attach.json = globals.json;
  ProcessSpec& spec = plan.attach.spec;
  spec.command = options.command.front();
  spec.arguments.assign(options.command.begin() + 1, options.command.end());
  spec.directory = options.directory;
  TRY(spec.environment, parse_env(options.env));
  if (!options.timeout.empty()) {
    TRY(std::chrono::seconds limit, parse_duration(options.timeout));
    spec.limit = limit;
  }
  TRY_VOID(want_terminal(options.terminal, plan.attach));
  if (!options.terminal) plan.attach.forward_stdin = !options.no_stdin && stdin_has_data();
  return plan;
}

Task<> destroy(std::shared_ptr<ApiClient> api, std::string sandbox) {
  auto killed = co_await kill_sandbox(api, sandbox);
  if (killed.ok() || killed.error().code() == Code::kNotFound) co_return;
  print_note(fmt::format("sandbox {} could not be destroyed ({}); it ends by itself within {}", sandbox,
                         killed.error().message(), format_duration(kLease)));
}

Task<Result<void>> keep(std::shared_ptr<ApiClient> api, std::string sandbox, std::chrono::seconds lifetime) {
  auto set = co_await set_lifetime(api, sandbox, lifetime);
  if (!set.ok()) {
    co_return std::move(set).error().context(
        fmt::format("the command has run, but sandbox {} could not be kept", sandbox));
  }
  print_note(fmt::format("sandbox {} stays for {}; 'atoll shell {}' enters it", sandbox,
                         format_duration(lifetime), sandbox));
  co_return success();
}

Task<Result<int>> run(Session& session, Plan plan, std::string instance) {
  CO_TRY(auto api, ApiClient::open(session, instance));
  // Until the command runs, a signal only makes us tidy up and leave.
  int early_signal = 0;
  session.on_signals({SIGINT, SIGTERM, SIGHUP}, [&early_signal](int number) { early_signal = number; });
  auto ticker = std::make_unique<Ticker>(session, "creating a sandbox");
  auto created = co_await create_sandbox(api, plan.create, plan.user);
  ticker.reset();
  if (!created.ok()) co_return std::move(created).error();
  auto guest = std::move(*created);
  Result<int> status = kExitSignalBase + early_signal;
  if (early_signal == 0) status = co_await attach(guest, plan.attach);
  std::string id = guest->sandbox();
  if (plan.keep && status.ok()) {
    CO_TRY_VOID(co_await keep(api, id, plan.lifetime));
  } else {
    co_await destroy(api, id);
  }
  co_return status;
}

}  // namespace

Result<void> want_terminal(bool wanted, AttachOptions& attach) {
  if (!wanted) return success();
  auto size = terminal_size(STDIN_FILENO);
  if (!size || !is_terminal(STDIN_FILENO)) {
    return make_error(Code::kInvalid, "standard input is no terminal")
        .with_hint(
            "run it from a terminal; 'atoll exec' and 'atoll run' work without one when -t is left out");
  }
  attach.terminal = true;
  attach.spec.terminal = size;
  const char* term = std::getenv("TERM");
  attach.spec.environment.emplace("TERM", term != nullptr && *term != '\0' ? term : "xterm-256color");
  attach.spec.environment.emplace("LANG", "C.UTF-8");
  return success();
}

void register_run(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& run_app = commands.add(
      nullptr, "run", "run a command in a fresh sandbox, then destroy it", kExamples,
      [options](const Globals& globals) -> Result<int> {
        TRY(Plan plan, make_plan(*options, globals));
        return Session().run([&](Session& session) { return run(session, plan, globals.instance); });
      });
  run_app.add_option("-T,--template", options->template_name, "what the sandbox starts from (default: base)")
      ->type_name("NAME");
  commands.add_list(run_app, "-e,--env", "KEY=VALUE", &options->env,
                    "set a variable; KEY alone passes yours on");
  commands.add_list(run_app, "-m,--metadata", "KEY=VALUE", &options->metadata, "label the sandbox");
  run_app.add_option("-w,--workdir", options->directory, "directory to run in")->type_name("DIR");
  run_app.add_option("-u,--user", options->user, "user to run as")->type_name("NAME");
  run_app.add_option("--timeout", options->timeout, "end the command after this time")->type_name("TIME");
  run_app.add_flag("-t,--tty", options->terminal, "give it a terminal");
  run_app.add_flag("--keep", options->keep, "leave the sandbox running afterwards");
  run_app.add_option("--lifetime", options->lifetime, "with --keep: for how long (default: 5m)")
      ->type_name("TIME");
  run_app.add_flag("-n,--no-stdin", options->no_stdin, "do not pass standard input on");
  run_app.add_flag("--no-internet", options->no_internet, "close the sandbox's network");
  add_isolation_options(run_app, options->risk, options->isolation);
  commands.take_rest(run_app, "COMMAND [ARGUMENT...]", &options->command);
}

}  // namespace atl::cli
