// SPDX-License-Identifier: Apache-2.0
//
// The launcher process. Single-threaded, with a private root that holds /proc and four empty directories, so
// that the mount namespaces of sandboxes are cheap to copy and hold nothing of the host.
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>

#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "runner/container/child.h"
#include "runner/gvisor/child.h"
#include "runner/gvisor/visit.h"
#include "runner/launcher.h"
#include "runner/microvm/child.h"
#include "runner/names.h"
#include "sys/files.h"
#include "sys/mount.h"
#include "sys/process.h"
#include "sys/seqpacket.h"

namespace atl::runner {
namespace {

using sys::Fd;

constexpr int kFirstOwnFd = 64;  // below it are the descriptors that sandboxes start with

std::uint32_t us_since(std::uint64_t start_ns) {
  return static_cast<std::uint32_t>((now_ns() - start_ns) / 1000);
}

// Moves a descriptor out of the range that children fill.
void move_up(Fd& fd) {
  int up = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstOwnFd);
  if (up >= 0) fd = Fd(up);
}

// For as long as it lives, this process is the sandbox's own user, with the rights of root.
// KERNEL: what one user may have of inotify instances, locked memory, pending signals and the like is also
// counted for the user that made the user namespace (struct ucounts). Were that root, one sandbox could use
// up what all the others and the host's own root have left. Changing ids clears the parent-death signal
// (prctl(2)), so it is set again; a runner that went in between is noticed by its closed channels.
class AsOwner {
 public:
  explicit AsOwner(std::uint32_t uid)
      : done_(::setresuid(static_cast<uid_t>(-1), uid, static_cast<uid_t>(-1)) == 0) {}
  ~AsOwner() {
    if (::setresuid(static_cast<uid_t>(-1), 0, static_cast<uid_t>(-1)) != 0) ::_exit(1);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  }
  AsOwner(const AsOwner&) = delete;
  bool done() const { return done_; }

 private:
  bool done_;
};

class LauncherProcess {
 public:
  LauncherProcess(const LauncherConfig& config, std::vector<Fd> orders, Fd exits)
      : config_(config), orders_(std::move(orders)), exits_(std::move(exits)), lock_(config.lock) {
    filter_ = {static_cast<unsigned short>(config.filter.size()),
               const_cast<sock_filter*>(config.filter.data())};
  }

  Result<void> prepare();
  [[noreturn]] void run();

 private:
  Result<void> enter_private_root();
  Result<void> fill_low_descriptors();
  void reap();
  bool serve(int channel);
  LaunchAnswer carry_out(const LaunchOrder& order, const PassedFds& fds, Fd& result);
  LaunchAnswer launch(const LaunchOrder& order, const PassedFds& fds, Fd& result);
  LaunchAnswer make_userns(const LaunchOrder& order, Fd& result);
  LaunchAnswer visit(const LaunchOrder& order, const PassedFds& passed, Fd& result);
  static int write_maps(pid_t pid, std::uint32_t base);

  const LauncherConfig& config_;
  sock_fprog filter_{};
  std::span<char> title_;
  std::vector<Fd> orders_;
  Fd exits_;
  Fd home_netns_;
  Fd signals_;
  Fd lock_;
  std::map<pid_t, std::uint64_t> children_;  // launch ids
};

Result<void> LauncherProcess::enter_private_root() {
  TRY_VOID(sys::enter_private_mount_namespace());
  TRY(Fd root, sys::mount_new("tmpfs", {{"size", "64k"}, {"mode", "0755"}}, sys::kNoSuid | sys::kNoDev));
  for (const char* name : {"proc", "lower", "disk", "kit", "root"}) {
    if (::mkdirat(root.get(), name, 0755) != 0)
      return Error::from_errno(errno, fmt::format("mkdir {}", name));
  }
  TRY_VOID(sys::attach_mount(root.get(), config_.stage));
  TRY(Fd proc, sys::mount_new("proc", {}, sys::kNoSuid | sys::kNoDev | sys::kNoExec));
  TRY_VOID(sys::attach_mount(proc.get(), config_.stage + "/proc"));
  if (::chdir(config_.stage.c_str()) != 0) return Error::from_errno(errno, "enter the stage");
  if (::syscall(SYS_pivot_root, ".", ".") != 0) return Error::from_errno(errno, "pivot_root of the launcher");
  TRY_VOID(sys::unmount_lazily("."));
  if (::chdir("/") != 0) return Error::from_errno(errno, "enter the private root");
  return success();
}

// Sandboxes get their descriptors at fixed low numbers; nothing of ours may ever be there.
Result<void> LauncherProcess::fill_low_descriptors() {
  for (Fd& fd : orders_) move_up(fd);
  for (Fd* fd : {&exits_, &home_netns_, &signals_, &lock_}) move_up(*fd);
  TRY(Fd filler, sys::open_file("/dev/null", O_RDWR));
  for (int fd = 3; fd < kFirstOwnFd; ++fd) {
    if (fd != filler.get() && ::dup3(filler.get(), fd, O_CLOEXEC) < 0)
      return Error::from_errno(errno, "fill descriptors");
  }
  if (filler.get() < kFirstOwnFd) filler.release();
  return success();
}

// Children need this program, the C library and their memory. What else is mapped (nftables and its kin, the
// C++ library) would be copied into each of them page table by page table. KERNEL: madvise(2), MADV_DONTFORK.
// A child that touched it would die; the program is linked with -z now, so that not even symbol lookup does.
void keep_libraries_from_children() {
#ifndef ATOLL_SANITIZED
  std::string maps = sys::read_file("/proc/self/maps", 1 << 20).value_or("");
  for (std::string_view line : split(maps, '\n')) {
    std::size_t slash = line.find('/');
    if (slash == std::string_view::npos) continue;
    std::string_view name = line.substr(line.rfind('/') + 1);
    bool needed =
        name.starts_with("libc.so") || name.starts_with("ld-linux") || name.starts_with("atoll-runner");
    unsigned long from = 0, to = 0;
    if (needed || std::sscanf(std::string(line).c_str(), "%lx-%lx", &from, &to) != 2) continue;
    ::madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTFORK);
  }
#endif
}

// KERNEL: proc(5), /proc/pid/stat, fields 48 and 49: where the command line begins and ends.
std::span<char> find_title() {
  std::string stat = sys::read_file("/proc/self/stat").value_or("");
  std::vector<std::string_view> fields = split(std::string_view(stat).substr(stat.rfind(')') + 1), ' ');
  constexpr std::size_t kBegin = 46, kEnd = 47;  // what follows the name starts with field 3, after a blank
  if (fields.size() <= kEnd) return {};
  auto begin = parse_number<std::uintptr_t>(fields[kBegin]), end = parse_number<std::uintptr_t>(fields[kEnd]);
  if (!begin || !end || *begin == 0 || *end <= *begin) return {};
  return {reinterpret_cast<char*>(*begin), *end - *begin};
}

Result<void> LauncherProcess::prepare() {
  ::setsid();  // signals of the runner's terminal are not for us
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "atoll-launcher");
  title_ = find_title();
  if (::prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) != 0)
    return Error::from_errno(errno, "keep rights over a change of ids");
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child, nullptr);
  signals_ = Fd(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return Error::from_errno(errno, "signalfd");
  TRY(home_netns_, sys::open_file("/proc/self/ns/net", O_RDONLY));
  // A supervisor may have shielded the runner from the OOM killer; sandboxes must not inherit that.
  TRY(std::string shield, sys::read_file("/proc/self/oom_score_adj"));
  if (shield.starts_with('-')) TRY_VOID(sys::write_file("/proc/self/oom_score_adj", "0"));
  // Nor a better place with the scheduler, where the daemons have one.
  if (::getpriority(PRIO_PROCESS, 0) < 0 && ::setpriority(PRIO_PROCESS, 0, 0) != 0)
    return Error::from_errno(errno, "give up the runner's priority");
  TRY_VOID(fill_low_descriptors());
  keep_libraries_from_children();
  return enter_private_root();
}

void LauncherProcess::reap() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {}
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    auto child = children_.find(pid);
    if (child == children_.end()) continue;  // an orphan of a sandbox helper
    LaunchExit report{child->second, pid, status};
    children_.erase(child);
    if (!sys::send_message(exits_.get(), sys::bytes_of(report)).ok()) ::_exit(0);
  }
}

// Needs the rights of the parent user namespace, so the launcher does it for the child (user_namespaces(7)).
int LauncherProcess::write_maps(pid_t pid, std::uint32_t base) {
  std::string map = fmt::format("0 {} {}", base, kIdsPerSlot);
  for (const char* file : {"gid_map", "uid_map"}) {
    Result<void> written = sys::write_file(fmt::format("/proc/{}/{}", pid, file), map);
    if (!written.ok()) return written.error().sys_errno() != 0 ? written.error().sys_errno() : EIO;
  }
  return 0;
}

LaunchAnswer failed(const LaunchOrder& order, int error, const char* what) {
  LaunchAnswer answer{};
  answer.launch_id = order.launch_id;
  answer.error = error;
  std::strncpy(answer.what, what, sizeof answer.what - 1);
  return answer;
}

LaunchAnswer LauncherProcess::launch(const LaunchOrder& order, const PassedFds& fds, Fd& result) {
  auto fd = [&](Passed which) { return fds[static_cast<std::size_t>(which)]; };
  int release[2];
  if (::pipe2(release, O_CLOEXEC) != 0) return failed(order, errno, "pipe");
  Fd release_read(release[0]), release_write(release[1]);
  ChildPlan plan{order, fds, release[0], release[1], &filter_, config_.landlock_abi, title_};

  // The child must be born in the slot's network namespace: inside its user namespace it could not enter one
  // that belongs to the host's (setns(2)). runsc needs rights over its namespace, so it gets a new one.
  bool own_network = order.kind == OrderKind::kGvisor || order.kind == OrderKind::kMonitor;
  if (!own_network && ::setns(fd(Passed::kNetns), CLONE_NEWNET) != 0)
    return failed(order, errno, "enter the slot");
  clone_args args{};
  int pidfd = -1;
  args.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD |
               CLONE_CLEAR_SIGHAND;
  if (own_network) args.flags |= CLONE_NEWNET;
  args.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  if (fd(Passed::kUnified) >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<std::uint64_t>(fd(Passed::kUnified));
  }
  std::uint64_t start = now_ns();
  long pid = -1;
  int error = 0;
  {
    AsOwner owner(order.uid_base);
    pid = owner.done() ? ::syscall(SYS_clone3, &args, sizeof args) : -1;
    if (pid == 0 && order.kind == OrderKind::kGvisor) gvisor::run_child(plan);
    if (pid == 0 && order.kind == OrderKind::kMonitor) microvm::run_monitor(plan);
    if (pid == 0 && order.kind == OrderKind::kMicrovm) microvm::run_child(plan);
    if (pid == 0) container::run_child(plan);
    error = errno;
  }
  // Staying in the slot's namespace would keep it alive.
  if (::setns(home_netns_.get(), CLONE_NEWNET) != 0) ::_exit(1);
  if (pid < 0) return failed(order, error, "clone");
  FAULT("launcher.after_clone");
  result = Fd(pidfd);
  children_[static_cast<pid_t>(pid)] = order.launch_id;
  LaunchAnswer answer{};
  answer.launch_id = order.launch_id;
  answer.pid = static_cast<std::int32_t>(pid);
  answer.clone_us = us_since(start);
  start = now_ns();
  error = write_maps(static_cast<pid_t>(pid), order.uid_base);
  answer.maps_us = us_since(start);
  FAULT("launcher.after_maps");
  if (error != 0) {
    static_cast<void>(sys::signal_process(pidfd, SIGKILL));
    return failed(order, error, "write the id maps");
  }
  if (::write(release_write.get(), "", 1) != 1) return failed(order, errno, "release the child");
  FAULT("launcher.before_answer");
  return answer;
}

LaunchAnswer LauncherProcess::make_userns(const LaunchOrder& order, Fd& result) {
  int life[2];
  if (::pipe2(life, O_CLOEXEC) != 0) return failed(order, errno, "pipe");
  Fd life_read(life[0]), life_write(life[1]);
  clone_args args{};
  int pidfd = -1;
  args.flags = CLONE_NEWUSER | CLONE_PIDFD;
  args.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  long pid = ::syscall(SYS_clone3, &args, sizeof args);
  if (pid == 0) {
    // Lives until it is killed below, or, if the launcher dies first, until the pipe has no writer.
    ::close(life[1]);
    char byte;
    static_cast<void>(!::read(life[0], &byte, 1));
    ::_exit(0);
  }
  FAULT("launcher.after_userns");
  if (pid < 0) return failed(order, errno, "clone for a user namespace");
  Fd child(pidfd);
  int error = write_maps(static_cast<pid_t>(pid), order.uid_base);
  Result<Fd> userns = sys::open_file(fmt::format("/proc/{}/ns/user", pid), O_RDONLY);
  static_cast<void>(sys::signal_process(pidfd, SIGKILL));
  if (error != 0 || !userns.ok()) return failed(order, error != 0 ? error : EIO, "make a user namespace");
  result = std::move(*userns);
  LaunchAnswer answer{};
  answer.launch_id = order.launch_id;
  return answer;
}

// Born here and without namespaces of its own; it joins those of the sandbox.
LaunchAnswer LauncherProcess::visit(const LaunchOrder& order, const PassedFds& passed, Fd& result) {
  PassedFds fds = passed;
  fds[static_cast<std::size_t>(Passed::kLock)] = lock_.get();
  ChildPlan plan{order, fds, -1, -1, &filter_, config_.landlock_abi, title_};
  clone_args args{};
  int pidfd = -1;
  args.flags = CLONE_PIDFD | CLONE_CLEAR_SIGHAND;
  args.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  int group = fds[static_cast<std::size_t>(Passed::kUnified)];
  if (group >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<std::uint64_t>(group);
  }
  long pid = ::syscall(SYS_clone3, &args, sizeof args);
  if (pid == 0) gvisor::run_visit(plan);
  if (pid < 0) return failed(order, errno, "clone for a visit");
  FAULT("launcher.after_visit");
  result = Fd(pidfd);
  LaunchAnswer answer{};
  answer.launch_id = order.launch_id;
  answer.pid = static_cast<std::int32_t>(pid);
  return answer;
}

LaunchAnswer LauncherProcess::carry_out(const LaunchOrder& order, const PassedFds& fds, Fd& result) {
  if (order.kind == OrderKind::kUserns) return make_userns(order, result);
  if (order.kind == OrderKind::kVisit) return visit(order, fds, result);
  return launch(order, fds, result);
}

bool LauncherProcess::serve(int channel) {
  LaunchOrder order{};
  Result<sys::Received> received =
      sys::receive_message(channel, std::as_writable_bytes(std::span<LaunchOrder, 1>(&order, 1)));
  if (!received.ok() || received->size != sizeof order || received->truncated) return false;
  PassedFds fds;
  fds.fill(-1);
  std::size_t next = 0;
  for (std::size_t i = 0; i < kPassedCount; ++i) {
    if ((order.present >> i & 1u) != 0 && next < received->fds.size()) fds[i] = received->fds[next++].get();
  }
  Fd result;
  LaunchAnswer answer = carry_out(order, fds, result);
  int sent[1] = {result.get()};
  std::span<const int> passed(sent, answer.error == 0 ? 1u : 0u);
  return sys::send_message(channel, sys::bytes_of(answer), passed).ok();
}

void LauncherProcess::run() {
  std::vector<pollfd> items;
  for (const Fd& channel : orders_) items.push_back({channel.get(), POLLIN, 0});
  items.push_back({signals_.get(), POLLIN, 0});
  for (;;) {
    if (::poll(items.data(), items.size(), -1) < 0 && errno != EINTR) ::_exit(1);
    for (std::size_t i = 0; i < orders_.size(); ++i) {
      if (items[i].revents != 0 && !serve(items[i].fd)) ::_exit(0);  // the runner is gone
    }
    if (items.back().revents != 0) reap();
  }
}

}  // namespace

void launcher_main(const LauncherConfig& config, std::vector<Fd> orders, Fd exits) {
  LauncherProcess process(config, std::move(orders), std::move(exits));
  Result<void> ready = process.prepare();
  if (!ready.ok()) {
    log::error("launcher cannot start", {{"error", ready.error().message()}});
    ::_exit(1);
  }
  process.run();
}

}  // namespace atl::runner
