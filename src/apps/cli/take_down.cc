// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/take_down.h"

#include <poll.h>
#include <unistd.h>

#include "apps/cli/api_client.h"
#include "apps/cli/bring_up.h"
#include "apps/cli/leftovers.h"
#include "apps/cli/machine.h"
#include "apps/cli/runner_link.h"
#include "sys/files.h"
#include "sys/process.h"

namespace atl::cli {
namespace {

constexpr Millis kGrace(30'000);            // for one daemon
constexpr Millis kSupervisorGrace(75'000);  // it waits for each daemon in turn
constexpr Millis kRunnerStart(10'000);
constexpr int kPollMs = 20;
constexpr int kAttempts = 4;  // to tell the runner, when connections break

// Calls `done` until it holds or `limit` has passed. For states that nothing announces.
template <class Done>
bool poll_until(Millis limit, Done done) {
  auto deadline = Steady::now() + limit;
  while (!done()) {
    if (Steady::now() > deadline) return false;
    ::poll(nullptr, 0, kPollMs);
  }
  return true;
}

Task<Result<int>> ask_to_end(Session& session, const Target& target) {
  CO_TRY(Url url, parse_url(target.api_url));
  auto api = std::make_shared<ApiClient>(session, target, url, url);
  CO_TRY(ApiReply reply, co_await api->call("POST", "/v1/shutdown"));
  co_return static_cast<int>(number_at(reply.body, "ended"));
}

class TakeDown {
 public:
  TakeDown(const Config& config, const std::function<void(const std::string&)>& tell)
      : config_(config), tell_(tell) {}

  Result<DownReport> run(Sandboxes sandboxes) {
    if (run_by_others(config_)) {
      return make_error(Code::kConflict,
                        "the daemons were not started by 'atoll up', so they are not stopped here")
          .with_hint(
              "systemctl stop atoll-control atoll-gateway atoll-runner; then 'atoll down' ends the sandboxes "
              "that are left");
    }
    auto state = load_state(config_.run_dir);
    if (state.ok()) state_ = *state;
    if (state_.slot_count > 0) {  // what is in force, whatever the configuration says by now
      config_.slot_first = state_.slot_first;
      config_.slot_count = state_.slot_count;
    }
    supervised_ = is_running(state_.process);
    report_.was_running = supervised_ || running("control") || running("runner");
    // Control ends them where it can, so that its store says why they ended; the runner ends what is left.
    if (sandboxes == Sandboxes::kStop && running("control")) end_through_control();
    stop_control();
    if (sandboxes == Sandboxes::kStop)
      TRY_VOID(stop_sandboxes());
    else
      report_.kept_sandboxes = records().size();
    stop_rest();
    if (sandboxes == Sandboxes::kStop) {
      // The kernel takes links and cgroups away in its own time; a moment is allowed, and what is left then
      // is told.
      poll_until(Millis(3000), [&] { return (report_.leftovers = find_leftovers(config_)).empty(); });
    }
    return report_;
  }

 private:
  ProcessId daemon(const std::string& name) const {
    for (const DaemonState& daemon : state_.daemons) {
      if (daemon.name == name) return daemon.process;
    }
    return {};
  }
  bool running(const std::string& name) const { return is_running(daemon(name)); }

  void end(const std::string& name) {
    ProcessId id = daemon(name);
    auto pidfd = sys::open_same_process(id.pid, id.start_ticks);
    if (id.pid > 0 && pidfd.ok()) end_process(*pidfd, kGrace);
  }

  void end_through_control() {
    if (!state_.listen.empty()) config_.listen = state_.listen;
    auto target = bootstrap_target(config_);
    if (!target.ok()) return;
    tell_("stopping the sandboxes");
    auto ended = Session().run([&](Session& session) { return ask_to_end(session, *target); });
    if (ended.ok()) report_.stopped_sandboxes = static_cast<std::size_t>(*ended);
  }

  // No new sandbox can be made from here on.
  void stop_control() {
    if (running("control")) {
      report_.stopped_daemons.push_back("control");
      tell_("stopping control");
    }
    auto supervisor = sys::open_same_process(state_.process.pid, state_.process.start_ticks);
    if (supervised_ && supervisor.ok()) {
      (void)sys::signal_process(supervisor->get(), kHoldControl).ok();
      poll_until(kGrace, [&] {
        auto now = load_state(config_.run_dir);
        return !is_running(state_.process) || (now.ok() && !is_running(daemon("control")) && held(*now));
      });
    }
    end("control");
  }

  // The supervisor has said that control is down and stays down.
  static bool held(const SupervisorState& state) {
    for (const DaemonState& daemon : state.daemons) {
      if (daemon.name == "control") return daemon.process.pid == 0;
    }
    return true;
  }

  std::vector<std::string> records() const {
    auto names = sys::list_directory(config_.run_dir + "/sandboxes");
    return names.ok() ? *names : std::vector<std::string>();
  }

  Result<RunnerLink> reach_runner() {
    auto link = RunnerLink::connect(config_.run_dir);
    if (link.ok()) return link;
    // Killed, and nobody starts it again: a runner of our own takes over what there is.
    if (!supervised_ && !is_running(own_runner_)) {
      TRY(std::vector<DaemonSpec> daemons, daemon_specs(config_));
      const DaemonSpec& spec = daemons.front();
      tell_("starting a runner to take over the sandboxes");
      TRY(ProcessId id, spawn_process({spec.program, spec.arguments, spec.user, spec.log_path}));
      own_runner_ = id;
    }
    poll_until(kRunnerStart * config_.patience, [&] {
      link = RunnerLink::connect(config_.run_dir);
      return link.ok();
    });
    if (link.ok()) return link;
    return std::move(link)
        .error()
        .context("the runner does not answer")
        .with_hint("see " + config_.data_dir + "/log/runner.log");
  }

  // A runner that is being killed may still take a connection; the next one is its successor's.
  Result<void> stop_sandboxes() {
    if (records().empty() && !running("runner")) return success();
    Result<void> done = success();
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      TRY(RunnerLink link, reach_runner());
      done = stop_all(link);
      bool broken =
          !done.ok() && (done.error().code() == Code::kUnavailable || done.error().sys_errno() != 0);
      if (!broken) break;
    }
    return done;
  }

  Result<void> stop_all(RunnerLink& link) {
    TRY(auto sandboxes, link.list());
    for (const RunnerLink::Sandbox& sandbox : sandboxes) {
      tell_(fmt::format("stopping sandbox {} ({} in all)", sandbox.id, sandboxes.size()));
      TRY_VOID(link.stop(sandbox));
      ++report_.stopped_sandboxes;
    }
    return success();
  }

  void stop_rest() {
    bool runner = running("runner");
    if (running("gateway")) report_.stopped_daemons.push_back("gateway");
    auto supervisor = sys::open_same_process(state_.process.pid, state_.process.start_ticks);
    if (supervised_ && supervisor.ok()) {
      tell_("stopping the runner");
      end_process(*supervisor, kSupervisorGrace);
      report_.stopped_daemons.push_back("runner");
      report_.stopped_daemons.push_back("supervisor");
      return;
    }
    if (runner) report_.stopped_daemons.push_back("runner");
    end("builder");
    end("gateway");
    end("runner");
    auto own = sys::open_same_process(own_runner_.pid, own_runner_.start_ticks);
    if (own_runner_.pid > 0 && own.ok()) end_process(*own, kGrace);
    ::unlink(supervisor_state_path(config_.run_dir).c_str());
  }

  Config config_;
  const std::function<void(const std::string&)>& tell_;
  SupervisorState state_;
  ProcessId own_runner_;
  bool supervised_ = false;
  DownReport report_;
};

}  // namespace

Result<DownReport> take_down(const Config& config, Sandboxes sandboxes,
                             const std::function<void(const std::string&)>& tell) {
  return TakeDown(config, tell).run(sandboxes);
}

}  // namespace atl::cli
