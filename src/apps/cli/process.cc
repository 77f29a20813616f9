// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/process.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>

#include "sys/process.h"

extern char** environ;

namespace atl::cli {
namespace {

struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
};

// In the child, after fork: only calls that are safe there. Says on the log what failed.
[[noreturn]] void fail_child(const char* what) {
  int number = errno;
  char text[256];
  int n = std::snprintf(text, sizeof text, "atoll: cannot start: %s: errno %d\n", what, number);
  if (n > 0) (void)!::write(STDERR_FILENO, text, static_cast<std::size_t>(n));
  ::_exit(127);
}

[[noreturn]] void run_child(char* const* argv, const std::optional<Identity>& identity,
                            const std::string& user, int log_fd) {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::setsid();
  int null_fd = ::open("/dev/null", O_RDONLY);
  if (null_fd < 0 || ::dup2(null_fd, 0) < 0 || ::dup2(log_fd, 1) < 0 || ::dup2(log_fd, 2) < 0)
    fail_child("dup2");
  if (::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0 && errno != ENOSYS)
    fail_child("close_range");  // Linux 5.11
  if (::chdir("/") != 0) fail_child("chdir /");
  ::umask(022);
  if (identity) {
    if (::initgroups(user.c_str(), identity->gid) != 0) fail_child("initgroups");
    if (::setresgid(identity->gid, identity->gid, identity->gid) != 0) fail_child("setresgid");
    if (::setresuid(identity->uid, identity->uid, identity->uid) != 0) fail_child("setresuid");
  }
  ::execv(argv[0], argv);
  fail_child(argv[0]);
}

std::vector<char*> make_argv(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  return argv;
}

}  // namespace

bool is_running(const ProcessId& id) {
  if (id.pid <= 0) return false;
  auto pidfd = sys::open_same_process(id.pid, id.start_ticks);
  return pidfd.ok() && !sys::wait_for_end(pidfd->get(), Millis(0));
}

void end_process(const sys::Fd& pidfd, Millis grace) {
  if (!sys::signal_process(pidfd.get(), SIGTERM).ok() || sys::wait_for_end(pidfd.get(), grace)) return;
  (void)sys::signal_process(pidfd.get(), SIGKILL).ok();
  sys::wait_for_end(pidfd.get(), std::chrono::seconds(10));
}

Result<ProcessId> spawn_process(const SpawnOptions& options) {
  std::optional<Identity> identity;
  if (!options.user.empty()) {
    const passwd* entry = ::getpwnam(options.user.c_str());
    if (entry == nullptr) {
      return make_error(Code::kNotFound, "there is no user '{}' on this machine", options.user)
          .with_hint("'sudo atoll up' makes it");
    }
    identity = Identity{entry->pw_uid, entry->pw_gid};
  }
  sys::Fd log(::open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640));
  if (!log) return Error::from_errno(errno, "open " + options.log_path);
  std::vector<char*> argv = make_argv(options.program, options.arguments);
  pid_t child = ::fork();
  if (child < 0) return Error::from_errno(errno, "fork " + options.program);
  if (child == 0) run_child(argv.data(), identity, options.user, log.get());
  // A child that has ended already is a zombie until we reap it, so its times can be read all the same.
  TRY(std::uint64_t ticks, sys::start_ticks(child));
  return ProcessId{child, ticks};
}

Result<void> run_program(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<char*> argv = make_argv(program, arguments);
  pid_t child = ::fork();
  if (child < 0) return Error::from_errno(errno, "fork " + program);
  if (child == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    ::execve(argv[0], argv.data(), environ);
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return success();
  if (WIFEXITED(status))
    return make_error(Code::kInternal, "{} ended with status {}", program, WEXITSTATUS(status));
  return make_error(Code::kInternal, "{} was ended by signal {}", program, WTERMSIG(status));
}

std::string find_program(const std::string& name) {
  for (const char* directory : {"/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/"}) {
    std::string path = directory + name;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

Result<std::string> find_daemon(const std::string& name) {
  char self[PATH_MAX];
  ssize_t n = ::readlink("/proc/self/exe", self, sizeof self);
  if (n < 0) return Error::from_errno(errno, "readlink /proc/self/exe");
  std::filesystem::path directory =
      std::filesystem::path(std::string(self, static_cast<std::size_t>(n))).parent_path();
  std::filesystem::path beside = directory / name;
  std::filesystem::path installed = directory.parent_path() / "libexec" / "atoll" / name;
  for (const auto& path : {beside, installed}) {
    if (::access(path.c_str(), X_OK) == 0) return path.string();
  }
  return make_error(Code::kNotFound, "the program {} is neither {} nor {}", name, beside.string(),
                    installed.string())
      .with_hint("build it, or install Atoll completely");
}

}  // namespace atl::cli
