// SPDX-License-Identifier: Apache-2.0
#include "guest/spawn.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>

#include "base/text.h"
#include "guest/identity.h"
#include "guest/limits.h"
#include "guest/no_network.h"
#include "sys/label_guard.h"

namespace atl::guest {
namespace {

using sys::Fd;

constexpr std::size_t kChildStack = 32 * kKiB;

// The child leaves its stack without returning, which AddressSanitizer would take for live variables in
// memory that is used again later.
#define ATOLL_IN_CHILD [[gnu::no_sanitize_address]]

enum class Step : int {
  kNone,
  kGroup,
  kSession,
  kTerminal,
  kDescriptors,
  kLimits,
  kUser,
  kGuards,
  kDirectory,
  kNetwork,
  kExec
};

// All that the child needs, laid out by the parent: the child shares the parent's memory and must not
// allocate.
struct ChildPlan {
  const char* const* paths;  // candidates for execve, ended by nullptr
  char* const* arguments;
  char* const* environment;
  const char* directory;
  const Identity* identity;
  std::array<int, 3> stdio;
  bool terminal;
  std::uint32_t open_files;
  const sock_fprog* filter;  // nullptr: none
  int group;                 // -1: none
  std::uint64_t guards;      // to have
  bool take_guards;          // those of the daemon: they are not for others
  const int* passed;
  int passed_count;
  // Answer of the child.
  Step failed = Step::kNone;
  int error = 0;
};

ATOLL_IN_CHILD [[noreturn]] void child_fail(ChildPlan& plan, Step step) {
  plan.error = errno;
  plan.failed = step;
  ::_exit(127);
}

// Handlers and ignored signals of the daemon must not reach the program. KERNEL: the table of handlers is a
// copy (no CLONE_SIGHAND); signals 32 and 33 belong to the C library, whose sigaction(2) refuses them.
ATOLL_IN_CHILD void child_reset_signals() {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &standard, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// KERNEL: with CLONE_VFORK the score of the child alone changes, although the memory is shared
// (fs/proc/base.c).
ATOLL_IN_CHILD void child_raise_oom_score() {
  int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  constexpr std::string_view kScore = "500";
  static_assert(kOomScoreAdjust == 500);
  [[maybe_unused]] ssize_t written = ::write(fd, kScore.data(), kScore.size());
  ::close(fd);
}

ATOLL_IN_CHILD void child_set_user(ChildPlan& plan) {
  const Identity& who = *plan.identity;
  if (::geteuid() != 0) return;
  // The C library's wrappers would change every thread of the daemon, so the calls are made directly.
  if (::syscall(SYS_setgroups, who.groups.size(), who.groups.data()) != 0 ||
      ::syscall(SYS_setresgid, who.gid, who.gid, who.gid) != 0 ||
      ::syscall(SYS_setresuid, who.uid, who.uid, who.uid) != 0)
    child_fail(plan, Step::kUser);
}

// KERNEL: a program of another user than root keeps of these only what is in its ambient set
// (capabilities(7)); root's, and what becomes root by setuid, also what it inherits.
ATOLL_IN_CHILD void child_set_guards(ChildPlan& plan) {
  if (!plan.take_guards && plan.guards == 0) return;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) != 0) child_fail(plan, Step::kGuards);
  for (unsigned half = 0; half < 2; ++half) {
    auto all = static_cast<std::uint32_t>(sys::all_guards() >> 32 * half);
    auto own = static_cast<std::uint32_t>(plan.guards >> 32 * half);
    data[half].permitted = (data[half].permitted & ~all) | own;
    data[half].effective = (data[half].effective & ~all) | own;
    data[half].inheritable = own;
  }
  if (::syscall(SYS_capset, &header, data) != 0) child_fail(plan, Step::kGuards);
  for (unsigned guard : sys::kGuards) {
    bool own = (plan.guards >> guard & 1) != 0;
    if (own && ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, guard, 0, 0) != 0)
      child_fail(plan, Step::kGuards);
  }
}

// KERNEL: both are the task's own, not the memory's that it shares (seccomp(2)). Without no_new_privs the
// filter would take CAP_SYS_ADMIN, and a program with more rights could be made to fail in ways of our
// choosing.
ATOLL_IN_CHILD void child_leave_network(ChildPlan& plan) {
  if (plan.filter == nullptr) return;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, plan.filter) != 0)
    child_fail(plan, Step::kNetwork);
}

// KERNEL: "0" stands for the writer. CLONE_INTO_CGROUP would be faster (a move waits up to some 20 ms for
// forks elsewhere to end, cgroup_threadgroup_rwsem), but clone3 is not to be had inside: its flags are behind
// a pointer, where the sandbox's filter cannot see them.
ATOLL_IN_CHILD void child_join_group(ChildPlan& plan) {
  if (plan.group >= 0 && ::write(plan.group, "0", 1) != 1) child_fail(plan, Step::kGroup);
}

ATOLL_IN_CHILD void child_exec(ChildPlan& plan) {
  int best = ENOENT;
  for (const char* const* path = plan.paths; *path != nullptr; ++path) {
    ::execve(*path, plan.arguments, plan.environment);
    if (errno == EACCES) best = EACCES;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) {
      best = errno;
      break;
    }
  }
  errno = best;
  child_fail(plan, Step::kExec);
}

ATOLL_IN_CHILD int child_main(void* argument) {
  ChildPlan& plan = *static_cast<ChildPlan*>(argument);
  child_reset_signals();
  child_join_group(plan);
  if (::setsid() < 0) child_fail(plan, Step::kSession);
  if (plan.terminal && ::ioctl(plan.stdio[0], TIOCSCTTY, 0) != 0) child_fail(plan, Step::kTerminal);
  for (int target = 0; target < 3; ++target) {
    // The plan's descriptors are all above 2, so none is overwritten before its turn, and dup2 clears
    // close-on-exec.
    if (::dup2(plan.stdio[static_cast<std::size_t>(target)], target) < 0)
      child_fail(plan, Step::kDescriptors);
  }
  child_raise_oom_score();
  if (plan.open_files != 0) {
    struct rlimit limit = {};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_max = std::min<rlim_t>(limit.rlim_max, plan.open_files);
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) child_fail(plan, Step::kLimits);
  }
  for (int i = 0; i < plan.passed_count; ++i) {
    if (::dup2(plan.passed[i], 3 + i) < 0) child_fail(plan, Step::kDescriptors);
  }
  // Closed, and not only at exec: directory and command are the caller's words, and /proc/self/fd among them
  // would lead through what the daemon has open. Not ~0U, which gVisor refuses as below the first.
  if (::syscall(SYS_close_range, 3 + plan.passed_count, INT_MAX, 0) != 0)
    child_fail(plan, Step::kDescriptors);
  // Until the next exec: what becomes another user than root keeps its capabilities.
  if (plan.guards != 0) ::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
  child_set_user(plan);
  child_set_guards(plan);
  if (::chdir(plan.directory) != 0) child_fail(plan, Step::kDirectory);
  // KERNEL: umask(2) belongs to the fs struct, a copy without CLONE_FS.
  ::umask(022);
  child_leave_network(plan);
  child_exec(plan);
  return 127;
}

Error spawn_error(const SpawnRequest& request, Step step, int number) {
  if (step == Step::kDirectory) {
    if (number == ENOENT || number == ENOTDIR)
      return make_error(Code::kInvalid, "cwd '{}' does not exist", request.directory);
    return Error::from_errno(number, fmt::format("change to cwd '{}'", request.directory));
  }
  if (step == Step::kNetwork)
    return Error::from_errno(number, fmt::format("start '{}' without network", request.command));
  if (step == Step::kGroup || step == Step::kGuards)
    return Error::from_errno(number, fmt::format("start '{}' with a label", request.command));
  if (step == Step::kExec) {
    auto error = Error::from_errno(number, fmt::format("start '{}'", request.command));
    if (number == ENOENT) return make_error(Code::kInvalid, "start '{}': no such command", request.command);
    if (number == EAGAIN || number == ENOMEM) return std::move(error).with_code(Code::kExhausted);
    if (number == EACCES || number == EPERM) return std::move(error).with_code(Code::kDenied);
    return std::move(error).with_code(Code::kInvalid);
  }
  return Error::from_errno(number, fmt::format("start '{}': set up the process", request.command));
}

Error no_room(int number, std::string_view what) {
  auto error = Error::from_errno(number, what);
  bool exhausted =
      number == EAGAIN || number == EMFILE || number == ENFILE || number == ENOMEM || number == ENOSPC;
  return exhausted ? std::move(error).with_code(Code::kExhausted) : std::move(error);
}

// The stdio numbers 0 to 2 of the daemon are always open (main sees to it), so new descriptors are above
// them.
Result<std::pair<Fd, Fd>> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return no_room(errno, "make a pipe");
  return std::pair(Fd(ends[0]), Fd(ends[1]));
}

void set_nonblocking(const Fd& fd) { ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK); }

// The child's side of the descriptors; closed by the parent after the start.
struct ChildEnds {
  Fd input, output, errors;
};

// KERNEL: TIOCGPTPEER (Linux 4.13) opens the other end without trusting a path. gVisor does not know it;
// there /dev/pts is a mount that nobody inside can change, and what it holds must be a terminal all the same.
Result<Fd> open_peer(int terminal) {
  Fd peer(::ioctl(terminal, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (peer) return peer;
  if (errno != ENOTTY && errno != EINVAL) return no_room(errno, "open the terminal's other end");
  unsigned number = 0;
  if (::ioctl(terminal, TIOCGPTN, &number) != 0) return Error::from_errno(errno, "number of a terminal");
  std::string path = fmt::format("/dev/pts/{}", number);
  peer = Fd(::open(path.c_str(), O_RDWR | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC));
  if (!peer) return no_room(errno, "open the terminal's other end");
  if (::isatty(peer.get()) == 0) return make_error(Code::kInternal, "{} is no terminal", path);
  return peer;
}

Result<ChildEnds> open_terminal(const SpawnRequest& request, Spawned& ours) {
  // Opened as the user, who thereby owns the other end.
  ActAs as(request.identity);
  ours.terminal = Fd(::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ours.terminal) return no_room(errno, "open a terminal");
  int unlock = 0;
  if (::ioctl(ours.terminal.get(), TIOCSPTLCK, &unlock) != 0)
    return Error::from_errno(errno, "unlock the terminal");
  ChildEnds ends;
  TRY(ends.input, open_peer(ours.terminal.get()));
  struct termios modes = {};
  if (::tcgetattr(ends.input.get(), &modes) == 0) {
    modes.c_iflag |= IUTF8;  // so that erasing in line mode takes a whole character
    ::tcsetattr(ends.input.get(), TCSANOW, &modes);
  }
  TRY(ends.output, ends.input.duplicate());
  TRY(ends.errors, ends.input.duplicate());
  TRY_VOID(set_terminal_size(ours.terminal.get(), *request.terminal));
  set_nonblocking(ours.terminal);
  return ends;
}

Result<ChildEnds> open_pipes(const SpawnRequest& request, Spawned& ours) {
  ChildEnds ends;
  TRY(auto output, make_pipe());
  TRY(auto errors, make_pipe());
  ours.output = std::move(output.first);
  ours.errors = std::move(errors.first);
  ends.output = std::move(output.second);
  ends.errors = std::move(errors.second);
  if (request.stdin_open) {
    TRY(auto input, make_pipe());
    ends.input = std::move(input.first);
    ours.input = std::move(input.second);
    set_nonblocking(ours.input);
  } else {
    ends.input = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!ends.input) return no_room(errno, "open /dev/null");
  }
  set_nonblocking(ours.output);
  set_nonblocking(ours.errors);
  return ends;
}

// Those that the runner gave this daemon, where commands can have labels.
bool holds_guards() {
  static const bool holds = [] {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2]{};
    if (::syscall(SYS_capget, &header, data) != 0) return false;
    std::uint64_t inherited = std::uint64_t{data[1].inheritable} << 32 | data[0].inheritable;
    return (inherited & sys::all_guards()) != 0;
  }();
  return holds;
}

std::vector<std::string> candidates(const SpawnRequest& request) {
  if (request.command.find('/') != std::string::npos) return {request.command};
  std::vector<std::string> out;
  auto path = request.environment.find("PATH");
  if (path == request.environment.end()) return out;
  for (std::string_view directory : split(path->second, ':')) {
    if (!directory.empty() && directory.front() == '/')
      out.push_back(fmt::format("{}/{}", directory, request.command));
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// KERNEL: clone(2) with CLONE_VM|CLONE_VFORK stops this thread until the child executes or ends, so the child
// may use its memory and report through it. All signals are blocked meanwhile: a handler must not run in
// shared memory.
Result<pid_t> start_child(const SpawnRequest& request, ChildPlan& plan) {
  void* stack =
      ::mmap(nullptr, kChildStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return no_room(errno, "make the stack of a new process");
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid =
      ::clone(child_main, static_cast<char*>(stack) + kChildStack, CLONE_VM | CLONE_VFORK | SIGCHLD, &plan);
  int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::munmap(stack, kChildStack);
  if (pid < 0) return no_room(error, "start a process");
  if (plan.failed != Step::kNone) return spawn_error(request, plan.failed, plan.error);
  return pid;
}

}  // namespace

Result<void> set_terminal_size(int terminal, TerminalSize size) {
  struct winsize window = {size.rows, size.columns, 0, 0};
  if (::ioctl(terminal, TIOCSWINSZ, &window) != 0) return Error::from_errno(errno, "resize the terminal");
  return success();
}

Result<Spawned> spawn(const SpawnRequest& request) {
  Spawned ours;
  auto ends = request.terminal ? open_terminal(request, ours) : open_pipes(request, ours);
  if (!ends.ok()) return std::move(ends).error();

  std::vector<std::string> arguments{request.command};
  arguments.insert(arguments.end(), request.arguments.begin(), request.arguments.end());
  std::vector<std::string> environment;
  for (const auto& [name, value] : request.environment)
    environment.push_back(fmt::format("{}={}", name, value));
  std::vector<std::string> paths = candidates(request);
  auto path_pointers = pointers(paths), argument_pointers = pointers(arguments),
       environment_pointers = pointers(environment);

  ChildPlan plan{};
  plan.paths = path_pointers.data();
  plan.arguments = argument_pointers.data();
  plan.environment = environment_pointers.data();
  plan.directory = request.directory.c_str();
  plan.identity = &request.identity;
  plan.stdio = {ends->input.get(), ends->output.get(), ends->errors.get()};
  plan.terminal = request.terminal.has_value();
  plan.open_files = request.open_files;
  plan.filter = request.no_network ? no_network_filter() : nullptr;
  plan.group = request.group ? request.group->get() : -1;
  plan.guards = request.guards;
  plan.take_guards = holds_guards();
  plan.passed = request.passed.data();
  plan.passed_count = static_cast<int>(request.passed.size());
  ours.labelled = plan.group >= 0;
  TRY(ours.pid, start_child(request, plan));
  return ours;
}

}  // namespace atl::guest
