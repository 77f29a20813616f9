// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "apps/cli/log_rotation.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"
#include "sys/files.h"
#include "sys/process.h"

namespace atl::cli {
namespace {

constexpr Millis kStopGrace = std::chrono::seconds(20);  // SIGTERM to SIGKILL
constexpr Steady::duration kStableAfter =
    std::chrono::seconds(30);  // up for so long: the next death is a first one
constexpr Steady::duration kReadyLimit =
    std::chrono::seconds(15);        // after it the next daemon starts all the same
constexpr Millis kTick(200);         // while something is due
constexpr Millis kIdleTick(10'000);  // log sizes are looked at
// From the end of an errand to the next one, however often it is asked for.
constexpr Steady::duration kErrandPause = std::chrono::seconds(1);

struct Daemon {
  DaemonSpec spec;
  ProcessId process;
  sys::Fd pidfd;
  unsigned restarts = 0;
  unsigned deaths = 0;  // in a row, for the back-off
  WallTime since;
  Steady::time_point started;
  Steady::time_point start_at;  // when not running: not before this
  bool held = false;
  bool running() const { return static_cast<bool>(pidfd); }
};

// Whether somebody listens at the path. Found in /proc/net/unix and not by connecting: the runner takes one
// connection at a time, and ours would push control's away.
bool is_listening(const std::string& path) {
  auto table = sys::read_file("/proc/net/unix", 16 * kMiB);
  if (!table.ok()) return true;  // nothing can be said; the next daemon will see for itself
  for (std::string_view line : split(*table, '\n')) {
    if (line.ends_with(" " + path) && line.find(" 00010000 ") != std::string_view::npos)
      return true;  // __SO_ACCEPTCON
  }
  return false;
}

// The process that runs an errand, when one does, and what says that one is asked for.
class Errand {
 public:
  explicit Errand(ErrandSpec spec) : spec_(std::move(spec)) {}

  const ErrandSpec& spec() const { return spec_; }
  const ProcessId& process() const { return process_; }
  WallTime since() const { return since_; }
  bool running() const { return static_cast<bool>(pidfd_); }

  void adopt(const DaemonState& state, sys::Fd pidfd) {
    process_ = state.process;
    since_ = state.since;
    pidfd_ = std::move(pidfd);
  }

  // True when it was started now.
  bool start_if_asked_for() {
    watch();
    if (running() || Steady::now() < start_at_ || !asked_for()) return false;
    auto id = spawn_process({spec_.program, spec_.arguments, "", spec_.log_path});
    auto pidfd = id.ok() ? sys::open_same_process(id->pid, id->start_ticks) : Result<sys::Fd>(id.error());
    start_at_ = Steady::now() + kErrandPause;
    if (!pidfd.ok()) {
      log::error("errand did not start", {{"errand", spec_.name}, {"why", pidfd.error().message()}});
      return false;
    }
    process_ = *id;
    pidfd_ = std::move(*pidfd);
    since_ = system_clock().now();
    log::info("errand started", {{"errand", spec_.name}, {"pid", process_.pid}});
    return true;
  }

  // True when it has ended now.
  bool take_end() {
    if (!running() || !sys::wait_for_end(pidfd_.get(), Millis(0))) return false;
    pidfd_.reset();
    process_ = {};
    start_at_ = Steady::now() + kErrandPause;
    return true;
  }

  void stop() {
    if (running()) end_process(pidfd_, kStopGrace);
    take_end();
  }

  // How long a wait may be at most.
  Millis patience() const { return !watch_ || (!running() && asked_for()) ? kTick : kIdleTick; }

  void add_to(std::vector<pollfd>& items) const {
    if (running()) items.push_back({pidfd_.get(), POLLIN, 0});
    if (watch_) items.push_back({watch_.get(), POLLIN, 0});
  }

 private:
  bool asked_for() const {
    return std::any_of(spec_.names.begin(), spec_.names.end(),
                       [&](const std::string& name) { return is_asked_for(spec_.folder, name); });
  }

  // The folder is made by a daemon, and watched from when it is there. What the watch says is not looked at:
  // it only wakes.
  void watch() {
    char events[4096];
    if (!watch_) {
      sys::Fd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
      unsigned mask = IN_CREATE | IN_MOVED_TO | IN_ONLYDIR | IN_DONT_FOLLOW;
      if (fd && ::inotify_add_watch(fd.get(), spec_.folder.c_str(), mask) >= 0) watch_ = std::move(fd);
    }
    while (watch_ && ::read(watch_.get(), events, sizeof events) > 0) {}
  }

  ErrandSpec spec_;
  ProcessId process_;
  sys::Fd pidfd_, watch_;
  WallTime since_;
  Steady::time_point start_at_;
};

class Supervisor {
 public:
  explicit Supervisor(const SupervisorOptions& options) : run_dir_(options.run_dir), told_(options.told) {
    for (const DaemonSpec& spec : options.daemons) daemons_.emplace_back().spec = spec;
    if (options.errand) errand_.emplace(*options.errand);
  }

  Result<void> run() {
    TRY_VOID(take_lock());
    // Orphans of the daemons (sandboxes whose launcher died) come to us and are reaped, so that no zombie
    // stays.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    TRY_VOID(block_signals());
    adopt_running();
    publish();
    log::info("supervisor started", {{"pid", ::getpid()}});
    while (!stopping_) {
      start_due();
      if (errand_ && errand_->start_if_asked_for()) publish();
      wait_for_events();
    }
    stop_all();
    ::unlink(supervisor_state_path(run_dir_).c_str());
    log::info("supervisor stopped", {});
    return success();
  }

 private:
  Result<void> take_lock() {
    std::string path = run_dir_ + "/supervisor.lock";
    lock_ = sys::Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock_) return Error::from_errno(errno, "open " + path);
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return success();
    if (errno != EWOULDBLOCK) return Error::from_errno(errno, "lock " + path);
    return make_error(Code::kConflict, "another supervisor already runs for {}", run_dir_);
  }

  Result<void> block_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (int number : {SIGTERM, SIGINT, SIGCHLD, SIGHUP, kHoldControl}) sigaddset(&set, number);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_ = sys::Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) return Error::from_errno(errno, "signalfd");
    return success();
  }

  // Daemons of a supervisor that was killed are still there: take them over instead of starting a second one.
  void adopt_running() {
    auto old = load_state(run_dir_);
    if (!old.ok()) return;
    for (const DaemonState& state : old->daemons) {
      auto daemon = std::find_if(daemons_.begin(), daemons_.end(),
                                 [&](const Daemon& d) { return d.spec.name == state.name; });
      bool is_errand = errand_ && errand_->spec().name == state.name;
      if ((daemon == daemons_.end() && !is_errand) || state.process.pid <= 0) continue;
      auto pidfd = sys::open_same_process(state.process.pid, state.process.start_ticks);
      if (!pidfd.ok()) continue;
      if (is_errand) {
        errand_->adopt(state, std::move(*pidfd));
        continue;
      }
      daemon->process = state.process;
      daemon->pidfd = std::move(*pidfd);
      daemon->restarts = state.restarts;
      daemon->since = state.since;
      daemon->started = Steady::now();
      log::info("daemon taken over", {{"daemon", state.name}, {"pid", state.process.pid}});
    }
  }

  void start_due() {
    for (Daemon& daemon : daemons_) {
      auto now = Steady::now();
      if (!daemon.running() && !daemon.held && now >= daemon.start_at) start(daemon);
      bool ready =
          daemon.running() && (daemon.spec.ready_socket.empty() || is_listening(daemon.spec.ready_socket));
      if (!ready && now - daemon.started < kReadyLimit) return;  // the next one waits
    }
  }

  void start(Daemon& daemon) {
    auto id =
        spawn_process({daemon.spec.program, daemon.spec.arguments, daemon.spec.user, daemon.spec.log_path});
    daemon.started = Steady::now();
    daemon.since = system_clock().now();
    auto pidfd = id.ok() ? sys::open_same_process(id->pid, id->start_ticks) : Result<sys::Fd>(id.error());
    if (pidfd.ok()) {
      daemon.process = *id;
      daemon.pidfd = std::move(*pidfd);
      log::info("daemon started", {{"daemon", daemon.spec.name}, {"pid", id->pid}});
    } else {
      log::error("daemon did not start", {{"daemon", daemon.spec.name}, {"why", pidfd.error().message()}});
      died(daemon);
    }
    publish();
  }

  void died(Daemon& daemon) {
    daemon.pidfd.reset();
    daemon.process = {};
    daemon.deaths = Steady::now() - daemon.started > kStableAfter ? 1 : daemon.deaths + 1;
    ++daemon.restarts;
    daemon.start_at = Steady::now() + restart_delay(daemon.deaths);
    publish();
  }

  void wait_for_events() {
    std::vector<pollfd> items{{signals_.get(), POLLIN, 0}};
    bool all_up = true;
    for (const Daemon& daemon : daemons_) {
      if (daemon.running()) items.push_back({daemon.pidfd.get(), POLLIN, 0});
      bool settled = daemon.held || (daemon.running() && (daemon.spec.ready_socket.empty() ||
                                                          Steady::now() - daemon.started > kReadyLimit));
      all_up = all_up && settled;
    }
    Millis limit = all_up ? kIdleTick : kTick;
    if (errand_) {
      errand_->add_to(items);
      limit = std::min(limit, errand_->patience());
    }
    ::poll(items.data(), items.size(), static_cast<int>(limit.count()));
    read_signals();
    for (Daemon& daemon : daemons_) {
      if (!daemon.running() || !sys::wait_for_end(daemon.pidfd.get(), Millis(0))) continue;
      int pid = daemon.process.pid;
      if (!daemon.held && !stopping_)
        log::error("daemon died, it is started again", {{"daemon", daemon.spec.name}, {"pid", pid}});
      died(daemon);
    }
    if (errand_ && errand_->take_end()) publish();
    reap();
    rotate_logs();
  }

  void read_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      int number = static_cast<int>(info.ssi_signo);
      if (number == SIGTERM || number == SIGINT) stopping_ = true;
      if (number == kHoldControl) hold(daemons_.back());
    }
  }

  void hold(Daemon& daemon) {
    daemon.held = true;
    if (daemon.running()) end_process(daemon.pidfd, kStopGrace);
    daemon.pidfd.reset();
    daemon.process = {};
    publish();
    log::info("daemon held", {{"daemon", daemon.spec.name}});
  }

  void stop_all() {
    if (errand_) errand_->stop();
    for (auto daemon = daemons_.rbegin(); daemon != daemons_.rend(); ++daemon) {
      if (daemon->running()) end_process(daemon->pidfd, kStopGrace);
      log::info("daemon stopped", {{"daemon", daemon->spec.name}});
    }
    reap();
  }

  void reap() {
    int status = 0;
    for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0; pid = ::waitpid(-1, &status, WNOHANG)) {
      log::debug("child reaped", {{"pid", pid}, {"status", status}});
    }
  }

  void rotate_logs() {
    if (Steady::now() < next_rotation_) return;
    next_rotation_ = Steady::now() + kIdleTick;
    for (const Daemon& daemon : daemons_) {
      auto rotated = rotate_log(daemon.spec.log_path);
      if (!rotated.ok()) log::warn("cannot rotate a log", {{"why", rotated.error().message()}});
    }
    if (errand_) (void)rotate_log(errand_->spec().log_path).ok();
  }

  void publish() {
    SupervisorState state = told_;
    state.process = {::getpid(), sys::start_ticks(::getpid()).value_or(0)};
    for (const Daemon& daemon : daemons_) {
      state.daemons.push_back({daemon.spec.name, daemon.process, daemon.restarts, daemon.since});
    }
    if (errand_ && errand_->running())
      state.daemons.push_back({errand_->spec().name, errand_->process(), 0, errand_->since()});
    auto written = sys::replace_file(supervisor_state_path(run_dir_), state_json(state), 0644);
    if (!written.ok()) log::warn("cannot write the state file", {{"why", written.error().message()}});
  }

  std::string run_dir_;
  SupervisorState told_;
  std::vector<Daemon> daemons_;
  std::optional<Errand> errand_;
  sys::Fd lock_;
  sys::Fd signals_;
  bool stopping_ = false;
  Steady::time_point next_rotation_{};
};

}  // namespace

bool is_asked_for(const std::string& folder, const std::string& name) {
  auto opened = sys::open_file(folder, O_PATH | O_DIRECTORY | O_NOFOLLOW);
  struct stat info{};
  return opened.ok() && ::fstatat(opened->get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(info.st_mode);
}

Result<void> supervise(const SupervisorOptions& options) { return Supervisor(options).run(); }

}  // namespace atl::cli
