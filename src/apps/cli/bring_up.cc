// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/bring_up.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "apps/cli/api_client.h"
#include "apps/cli/files.h"
#include "apps/cli/log_rotation.h"
#include "apps/cli/machine.h"
#include "base/text.h"
#include "base/units.h"
#include "sys/files.h"
#include "sys/process.h"

namespace atl::cli {
namespace {

constexpr Millis kStartLimit(30'000);
constexpr Millis kPoll(30);
constexpr unsigned kDeathsAllowed = 3;
constexpr std::size_t kLogLines = 8;

struct Directory {
  std::string path;
  mode_t mode;
  bool of_user;  // owned by the unprivileged user
};

Result<void> ensure_one(const Directory& directory, const passwd& user, const Tell& tell) {
  struct stat before{};
  bool existed = ::lstat(directory.path.c_str(), &before) == 0;
  if (existed && !S_ISDIR(before.st_mode))
    return make_error(Code::kConflict, "{} exists and is no directory", directory.path);
  // What a stranger owns may hold their links and files; it is not taken over.
  if (existed && before.st_uid != 0 && before.st_uid != user.pw_uid) {
    return make_error(Code::kDenied, "{} belongs to uid {}, and neither to root nor to {}", directory.path,
                      before.st_uid, user.pw_name)
        .with_hint(fmt::format("if it is right, give it over: chown root {}; or name another directory",
                               directory.path));
  }
  TRY_VOID(make_directories(directory.path, directory.mode));
  uid_t uid = directory.of_user ? user.pw_uid : 0;
  gid_t gid = directory.of_user ? user.pw_gid : 0;
  bool right = existed && before.st_uid == uid && (before.st_mode & 07777) == directory.mode;
  if (right) return success();
  if (::chown(directory.path.c_str(), uid, gid) != 0)
    return Error::from_errno(errno, "change the owner of " + directory.path);
  if (::chmod(directory.path.c_str(), directory.mode) != 0)
    return Error::from_errno(errno, "change the mode of " + directory.path);
  tell(fmt::format("{} directory {} ({:04o}, {})", existed ? "corrected" : "made", directory.path,
                   directory.mode, directory.of_user ? user.pw_name : "root"));
  return success();
}

std::vector<std::string> supervisor_arguments(const Config& config) {
  std::vector<std::string> arguments{"supervise"};
  for (std::string& flag : config_flags(config)) arguments.push_back(std::move(flag));
  return arguments;
}

// In the child: becomes the supervisor with its log as standard output.
[[noreturn]] void exec_supervisor(const std::vector<std::string>& arguments, const std::string& log_path) {
  int log = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
  int null_fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (log < 0 || null_fd < 0 || ::dup2(null_fd, 0) < 0 || ::dup2(log, 1) < 0 || ::dup2(log, 2) < 0)
    ::_exit(127);
  // A lock or a pipe of whoever ran 'atoll up' must not live as long as we do. Linux 5.11.
  if (::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0 && errno != ENOSYS) ::_exit(127);
  std::string name = "atoll";
  std::vector<char*> argv{name.data()};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  if (::chdir("/") != 0) ::_exit(127);
  ::execv("/proc/self/exe", argv.data());
  ::_exit(127);
}

// Twice forked: the supervisor belongs to no session and to no shell.
Result<pid_t> fork_supervisor(const Config& config, Foreground foreground) {
  std::vector<std::string> arguments = supervisor_arguments(config);
  std::string log_path = config.data_dir + "/log/supervisor.log";
  pid_t child = ::fork();
  if (child < 0) return Error::from_errno(errno, "fork the supervisor");
  if (child == 0) {
    ::setsid();
    if (foreground == Foreground::kYes) exec_supervisor(arguments, log_path);
    pid_t grandchild = ::fork();
    if (grandchild == 0) exec_supervisor(arguments, log_path);
    ::_exit(grandchild < 0 ? 127 : 0);
  }
  if (foreground == Foreground::kYes) return child;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (status != 0) return make_error(Code::kInternal, "could not fork the supervisor");
  return pid_t{-1};
}

Error daemon_failed(const Config& config, const std::string& name) {
  std::string path = config.data_dir + "/log/" + name + ".log";
  std::string lines = tail_of(path, kLogLines);
  std::string shown;
  for (std::string_view line : split(lines, '\n')) {
    if (!line.empty()) shown += "\n    " + printable(line);
  }
  return make_error(Code::kUnavailable, "{} does not stay up; the last lines of {}:{}", name, path, shown)
      .with_word("daemon_failed")
      .with_hint("'sudo atoll doctor' looks for the cause; nothing was left running");
}

// The daemon that has died again and again since `before`, empty when none has.
std::string dying_daemon(const SupervisorState& before, const SupervisorState& now) {
  for (std::size_t i = 0; i < now.daemons.size(); ++i) {
    unsigned earlier = i < before.daemons.size() ? before.daemons[i].restarts : 0;
    if (now.daemons[i].restarts >= earlier + kDeathsAllowed) return now.daemons[i].name;
  }
  return {};
}

// `config` as asked becomes what really runs, and the difference is told. The daemons keep the settings that
// they were started with.
Result<void> take_running_settings(const SupervisorState& state, Config& config, const Tell& tell) {
  if (state.flags.empty()) {  // started by an older version
    if (!state.listen.empty()) config.listen = state.listen;
    return success();
  }
  TRY(Config running, config_of_flags(state.flags));
  if (running.instance != config.instance || running.data_dir != config.data_dir) {
    return make_error(Code::kConflict, "{} is the run directory of instance '{}', which runs with data in {}",
                      config.run_dir, running.instance, running.data_dir)
        .with_hint("name another --run-dir, or that instance and its --data-dir");
  }
  Config asked = config;
  config = running;
  config.ready_sandboxes = asked.ready_sandboxes;
  config.base_template = asked.base_template;
  std::vector<std::string> differ = settings_that_differ(running, asked);
  if (differ.empty()) return success();
  tell(fmt::format("it runs with other settings than asked for: {}", fmt::join(differ, " ")));
  tell("to change them: 'sudo atoll down --keep', then 'atoll up' again; sandboxes go on");
  return success();
}

Result<void> ensure_one_user(const std::string& user, const std::string& home, const Tell& tell) {
  if (::getpwnam(user.c_str()) != nullptr) return success();
  std::string useradd = find_program("useradd");
  if (useradd.empty()) {
    return make_error(Code::kNotFound,
                      "the system user '{}' does not exist and useradd is not here to make it", user)
        .with_hint("install the package passwd, or make the user yourself");
  }
  TRY_VOID(run_program(useradd, {"--system", "--user-group", "--no-create-home", "--home-dir", home,
                                 "--shell", "/usr/sbin/nologin", user}));
  tell(fmt::format("made system user {}", user));
  return success();
}

// Control's user owns the folder that it lies in, and we are root.
Result<std::string> read_first_key(const Config& config) {
  const passwd* user = ::getpwnam(config.user.c_str());
  return sys::read_file_of(user == nullptr ? 0 : user->pw_uid, config.data_dir + "/control/bootstrap.key");
}

}  // namespace

Result<void> ensure_user(const Config& config, const Tell& tell) {
  TRY_VOID(ensure_one_user(config.user, config.data_dir, tell));
  return config.gateway ? ensure_one_user(kGatewayUser, config.data_dir, tell) : success();
}

Result<void> ensure_directories(const Config& config, const Tell& tell) {
  const passwd* found = ::getpwnam(config.user.c_str());
  if (found == nullptr) return make_error(Code::kNotFound, "there is no user '{}'", config.user);
  passwd user = *found;
  for (const Directory& directory : std::vector<Directory>{{config.data_dir, 0755, false},
                                                           {config.data_dir + "/control", 0700, true},
                                                           {config.data_dir + "/templates", 0755, false},
                                                           {config.data_dir + "/disks", 0700, false},
                                                           {config.data_dir + "/log", 0750, false},
                                                           {config.run_dir, 0755, false},
                                                           {config.run_dir + "/sandboxes", 0700, false}}) {
    TRY_VOID(ensure_one(directory, user, tell));
  }
  return success();
}

Result<Started> ensure_supervisor(const Config& config, Foreground foreground, const Tell& tell) {
  Started started;
  started.config = config;
  auto state = load_state(config.run_dir);
  if (state.ok() && is_running(state->process)) {
    started.was_running = true;
    TRY_VOID(take_running_settings(*state, started.config, tell));
    return started;
  }
  if (run_by_others(config)) {
    tell("the daemons are run by something else (systemd?): they are left to it");
    started.was_running = true;
    return started;
  }
  // Daemons that outlived their supervisor keep their ports.
  bool orphans = state.ok() && !state->listen.empty() &&
                 std::any_of(state->daemons.begin(), state->daemons.end(),
                             [](const DaemonState& d) { return is_running(d.process); });
  if (orphans) {
    started.config.listen = state->listen;
    TRY(Config running, config_of_flags(state->flags));
    started.config.gateway = running.gateway;
    started.config.gateway_port = running.gateway_port;
  } else {
    TRY_VOID(choose_gateway_port(started.config));
  }
  TRY_VOID(choose_ports(started.config));
  TRY_VOID(ensure_local_address(started.config));
  TRY_VOID(daemon_specs(started.config).ok() ? success()
                                             : Result<void>(daemon_specs(started.config).error()));
  TRY(started.child, fork_supervisor(started.config, foreground));
  auto deadline = Steady::now() + kStartLimit * config.patience;
  for (;;) {
    auto now = load_state(config.run_dir);
    if (now.ok() && is_running(now->process)) break;
    if (Steady::now() > deadline) return daemon_failed(config, "supervisor");
    ::poll(nullptr, 0, static_cast<int>(kPoll.count()));
  }
  tell(orphans ? "started the supervisor, which took over the daemons"
               : "started the supervisor and the daemons");
  return started;
}

Result<Target> bootstrap_target(const Config& config) {
  Target target;
  target.api_url = target.sandbox_url = local_url(config);
  TRY(std::string key, read_first_key(config));
  target.api_key = Secret(std::string(trim(split(key, '\n').front())));
  target.ca_file = config.data_dir + "/control/tls/ca.pem";
  target.run_dir = config.run_dir;
  target.data_dir = config.data_dir;
  TRY(Url url, parse_url(target.api_url));
  bool has_port = config.domain.find(':') != std::string::npos;
  target.domain = has_port ? config.domain : fmt::format("{}:{}", config.domain, url.port);
  return target;
}

Task<Result<void>> wait_until_serving(Session& session, const Config& config) {
  auto deadline = Steady::now() + kStartLimit * config.patience;
  std::string last = "control has not answered yet";
  auto before = load_state(config.run_dir);
  while (Steady::now() < deadline) {
    auto state = load_state(config.run_dir);
    if (state.ok()) {
      std::string failed =
          is_running(state->process) ? dying_daemon(before.ok() ? *before : *state, *state) : "supervisor";
      if (!failed.empty()) co_return daemon_failed(config, failed);
    }
    auto target = bootstrap_target(config);
    if (target.ok()) {
      CO_TRY(Url url, parse_url(target->api_url));
      auto api = std::make_shared<ApiClient>(session, *target, url, url);
      auto status = co_await api->call("GET", "/v1/status");
      const json::value* runner = status.ok() ? find_at(status->body, "runner") : nullptr;
      if (runner != nullptr && flag_at(*runner, "connected") && flag_at(status->body, "reconciled", true))
        co_return success();
      last = status.ok() ? "control is not connected to the runner" : status.error().message();
    }
    co_await async::sleep_for(kPoll);
  }
  co_return make_error(
      Code::kDeadline, "Atoll did not begin to serve within {} seconds: {}",
      std::chrono::duration_cast<std::chrono::seconds>(kStartLimit * config.patience).count(), last)
      .with_hint("see the logs in " + config.data_dir + "/log");
}

}  // namespace atl::cli
