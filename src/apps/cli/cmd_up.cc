// SPDX-License-Identifier: Apache-2.0
//
// atoll up: start everything on this machine, step by step.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/bring_up.h"
#include "apps/cli/caller.h"
#include "apps/cli/env_lines.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/machine.h"
#include "apps/cli/output.h"
#include "apps/cli/probes.h"
#include "apps/cli/registry.h"
#include "apps/cli/take_down.h"
#include "apps/cli/template_build.h"
#include "apps/cli/ticker.h"
#include "base/text.h"
#include "base/units.h"
#include "sys/files.h"
#include "sys/process.h"

namespace atl::cli {
namespace {

constexpr char kExamples[] =
    "  # start Atoll, or see that it runs; the first start also builds the template 'base'\n"
    "  sudo atoll up\n"
    "  # reachable from other machines, over TLS only\n"
    "  sudo atoll up --listen 0.0.0.0:7400\n"
    "  # as a container's main process\n"
    "  atoll up --foreground\n"
    "\n"
    "  Lasting settings belong into /etc/atoll/atoll.toml (see atoll.toml(5)).";

struct Options {
  MachineOptions machine;
  bool foreground = false;
  bool no_base = false;
};

// Lines of steps go to standard error; results to standard output.
void tell(const std::string& line) { write_err(paint(STDERR_FILENO, Colour::kGreen, "• ") + line + "\n"); }

Task<Result<int>> register_base(Session& session, const Target& target, Registration registration,
                                std::string build) {
  CO_TRY(Url url, parse_url(target.api_url));
  auto api = std::make_shared<ApiClient>(session, target, url, url);
  CO_TRY(bool changed, co_await register_build(api, std::move(registration), std::move(build)));
  co_return changed ? 1 : 0;
}

Result<void> build_base(const Config& config, const Target& target, bool ready_is_asked) {
  Progress progress("building the template 'base'");
  int last_shown = -1;
  auto on_progress = [&](int percent, const std::string& text) {
    if (is_terminal(STDERR_FILENO)) return progress.update(fmt::format("{} % {}", percent, text));
    // In a log file a line per tenth is enough.
    if (percent / 10 > last_shown / 10 || last_shown < 0)
      write_err(fmt::format("  [{:3} %] {}\n", percent, printable(text)));
    last_shown = percent;
  };
  auto began = Steady::now();
  TRY(BuildResult built, run_builder({"build-base", "--data-dir", config.data_dir},
                                     config.data_dir + "/log/template.log", on_progress));
  progress.clear();
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Steady::now() - began).count();
  if (!built.cached)
    tell(fmt::format("built the template 'base' in {} s ({} MiB)", seconds, built.size_bytes / kMiB));
  Registration registration;
  registration.name = "base";
  registration.first_ready = config.ready_sandboxes;
  if (ready_is_asked) registration.ready = config.ready_sandboxes;
  TRY(int changed, Session().run([&](Session& session) {
    return register_base(session, target, registration, built.build);
  }));
  if (changed != 0) tell("registered the template 'base'");
  return success();
}

Task<Result<int>> await_serving(Session& session, const Config& config) {
  Ticker ticker(session, "starting Atoll");
  auto served = co_await wait_until_serving(session, config);
  if (!served.ok()) co_return std::move(served).error();
  co_return kExitOk;
}

// What this host cannot give is said at every start, not only when somebody asks.
Task<Result<int>> tell_posture(Session& session, const Target& target) {
  CO_TRY(Url url, parse_url(target.api_url));
  auto api = std::make_shared<ApiClient>(session, target, url, url);
  CO_TRY(ApiReply host, co_await api->call("GET", "/v1/host"));
  for (const Finding& finding : host_findings(host.body)) {
    if (finding.state == Finding::State::kOk) continue;
    if (finding.state == Finding::State::kSkipped) {  // nobody knows yet
      tell(fmt::format("{}: {}", finding.name, finding.detail));
      continue;
    }
    std::string line =
        fmt::format("degraded: {}: {}; 'sudo atoll doctor' says more", finding.name, finding.detail);
    tell(paint(STDERR_FILENO, Colour::kYellow, line));
  }
  co_return kExitOk;
}

void show_result(const Config& config, const Target& target, const Caller& caller, bool was_running,
                 bool as_json) {
  if (as_json) {
    print_json(json::object({{"instance", config.instance},
                             {"was_running", was_running},
                             {"api_url", target.api_url},
                             {"domain", target.domain},
                             {"data_dir", config.data_dir},
                             {"run_dir", config.run_dir},
                             {"credentials", caller.credentials}}));
    return;
  }
  tell(fmt::format("{} at {}", was_running ? "Atoll runs already" : "Atoll is up", target.api_url));
  tell(fmt::format("the key of {} is in {}; logs are in {}/log", caller.name, caller.credentials,
                   config.data_dir));
  tell("try: atoll run python3 -c 'print(1)'");
  tell("for E2B clients: eval \"$(atoll env)\", which does this:");
  write_out(shell_lines(env_lines(target, Transport::kPlain)));
}

Result<int> finish(const Options& options, const Globals& globals, const Started& started) {
  const Config& config = started.config;
  TRY_VOID(Session().run([&](Session& session) { return await_serving(session, config); }));
  TRY(Target target, bootstrap_target(config));
  TRY_VOID(Session().run([&](Session& session) { return tell_posture(session, target); }));
  TRY(std::string ca_pem, sys::read_file(target.ca_file, kMiB));
  TRY(Caller caller, find_caller());
  TRY_VOID(store_target(caller, config.instance, target, ca_pem));
  if (config.base_template && !options.no_base) {
    auto built = build_base(config, target, options.machine.ready >= 0);
    if (!built.ok()) {
      return std::move(built)
          .error()
          .context("Atoll runs, but the template 'base' is not there")
          .with_hint(built.error().hint() + (built.error().hint().empty() ? "" : "; ") +
                     "then run 'sudo atoll up' again");
    }
  }
  show_result(config, target, caller, started.was_running, globals.json);
  return kExitOk;
}

// Waits for a signal or the supervisor's end, then takes everything down.
Result<int> stay(const Started& started) {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  int number = SIGCHLD;
  while (number == SIGCHLD && ::waitpid(started.child, nullptr, WNOHANG) == 0) ::sigwait(&set, &number);
  auto step = [](const std::string& line) { tell(line); };
  TRY(DownReport report, take_down(started.config, Sandboxes::kStop, step));
  for (const std::string& line : report.leftovers) write_err("left over: " + line + "\n");
  return report.leftovers.empty() ? kExitOk : kExitUnhealthy;
}

Result<int> up(const Options& options, const Globals& globals) {
  TRY_VOID(require_root("atoll up"));
  TRY(Config config, resolve_config(options.machine, globals));
  TRY_VOID(ensure_user(config, tell));
  TRY_VOID(ensure_directories(config, tell));
  auto foreground = options.foreground ? Foreground::kYes : Foreground::kNo;
  TRY(Started started, ensure_supervisor(config, foreground, tell));
  auto status = finish(options, globals, started);
  bool serving_failed =
      !status.ok() && (status.error().word() == "daemon_failed" || status.error().code() == Code::kDeadline);
  if (serving_failed && !started.was_running) {
    // What does not work is not left half running; sandboxes of an earlier run are.
    auto down = take_down(started.config, Sandboxes::kKeep, [](const std::string&) {});
    if (!down.ok()) print_error(down.error(), globals.json);
  }
  if (!status.ok() || !options.foreground || started.was_running) return status;
  return stay(started);
}

}  // namespace

void register_up(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app = commands.add(nullptr, "up", "start Atoll on this machine", kExamples,
                               [options](const Globals& globals) { return up(*options, globals); });
  app.add_flag("--foreground", options->foreground, "stay, and stop everything at ^C or SIGTERM");
  app.add_flag("--no-base", options->no_base, "do not build the template 'base'");
  add_machine_options(commands, app, options->machine, Declare::kAll);
}

}  // namespace atl::cli
