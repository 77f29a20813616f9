// SPDX-License-Identifier: Apache-2.0
#include "runner/start_parts.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fault.h"
#include "base/patience.h"
#include "sys/files.h"
#include "sys/process.h"

namespace atl::runner {
namespace {

using model::wire::StartStep;
using sys::Fd;

constexpr long kOverlayMagic = 0x794c7630;      // OVERLAYFS_SUPER_MAGIC
constexpr std::uint64_t kMinShm = 64ull << 20;  // of /dev/shm; half of the memory when that is more

Error child_error(const ChildReport& report) {
  return Error::from_errno(report.error,
                           fmt::format("set up the sandbox: {} (child.cc:{})", report.what, report.line));
}

Result<Fd> open_overlay(const std::string& path, const std::string& sandbox, int flags, struct statfs& info) {
  TRY(Fd root, sys::open_file(path, flags | O_DIRECTORY));
  if (::fstatfs(root.get(), &info) != 0) return Error::from_errno(errno, "ask for disk use");
  if (info.f_type != kOverlayMagic)
    return make_error(Code::kInternal, "the root of {} is no overlay", sandbox);
  return root;
}

}  // namespace

Result<std::optional<ChildReport>> read_report(int pipe, Steady::time_point until) {
  pollfd item{pipe, POLLIN, 0};
  for (;;) {
    auto left = std::chrono::duration_cast<Millis>(until - Steady::now());
    int n = ::poll(&item, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return make_error(Code::kDeadline, "the sandbox did not report in time");
    break;
  }
  ChildReport report{};
  ssize_t n = ::read(pipe, &report, sizeof report);  // at most PIPE_BUF bytes: never in parts (pipe(7))
  if (n == 0) return std::optional<ChildReport>();
  if (n != sizeof report) return Error::from_errno(n < 0 ? errno : EIO, "read the sandbox's report");
  return std::optional<ChildReport>(report);
}

std::uint32_t us_between(std::uint64_t from_ns, std::uint64_t to_ns) {
  return to_ns > from_ns ? static_cast<std::uint32_t>((to_ns - from_ns) / 1000) : 0;
}

Result<std::pair<Fd, Fd>> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno(errno, "make a pipe");
  return std::pair<Fd, Fd>(Fd(ends[0]), Fd(ends[1]));
}

Result<Fd> filled_pipe(std::string_view bytes) {
  TRY(auto ends, make_pipe());
  TRY_VOID(sys::write_all(ends.second.get(), bytes));
  return std::move(ends.first);
}

model::GuestBoot guest_boot(const StartSpec& spec) {
  model::GuestBoot boot{};
  boot.magic = model::kGuestBootMagic;
  boot.version = 1;
  std::copy(spec.internal_token.begin(), spec.internal_token.end(), boot.internal_token);
  boot.listen_fd = boot.memory_events_fd = boot.memory_usage_fd = boot.memory_stat_fd = boot.cpu_usage_fd =
      boot.ready_fd = boot.settle_fd = boot.cgroup_fd = -1;
  boot.cpu_millis = spec.limits.cpu_millis;
  boot.open_files = spec.limits.open_files;
  boot.memory_bytes = spec.limits.memory_bytes;
  boot.disk_bytes = spec.limits.disk_bytes;
  std::strncpy(boot.sandbox, spec.sandbox.c_str(), sizeof boot.sandbox - 1);
  return boot;
}

void put_cgroup(PassedFds& fds, const sys::CgroupHandles& cgroup) {
  at(fds, Passed::kUnified) = cgroup.unified.get();
  std::size_t first = static_cast<std::size_t>(Passed::kTasks0);
  for (std::size_t i = 0; i < cgroup.tasks.size() && i < kTaskFds; ++i)
    fds[first + i] = cgroup.tasks[i].get();
}

PassedFds passed_fds(const Leases& leases) {
  PassedFds fds;
  fds.fill(-1);
  at(fds, Passed::kNetns) = leases.slot.netns.get();
  at(fds, Passed::kDisk) = leases.disk.mount.get();
  at(fds, Passed::kKit) = leases.slot.kit.get();
  put_cgroup(fds, leases.cgroup);
  return fds;
}

std::uint64_t shm_bytes(const model::Limits& limits) {
  return std::max(limits.memory_bytes / 2, std::min(kMinShm, limits.memory_bytes));
}

Result<void> wait_for_setup(int status_pipe, StepTimes& times) {
  Steady::time_point until = Steady::now() + patient(kStartBound);
  TRY(std::optional<ChildReport> report, read_report(status_pipe, until));
  if (!report) return make_error(Code::kUnavailable, "the sandbox died before it was set up");
  if (report->error != 0) return child_error(*report);
  TRY(std::optional<ChildReport> failure, read_report(status_pipe, until));
  if (failure) return child_error(*failure);
  std::uint64_t end = now_ns();
  times[StartStep::kStepMounts] = us_between(report->released_ns, report->mounted_ns);
  times[StartStep::kStepPivot] = us_between(report->mounted_ns, report->pivoted_ns);
  times[StartStep::kStepConfine] = us_between(report->pivoted_ns, report->confined_ns);
  times[StartStep::kStepExec] = us_between(report->confined_ns, end);
  return success();
}

Result<void> freeze_processes(sys::Cgroups& cgroups, const Running& running) {
  Result<void> frozen = cgroups.freeze(running.sandbox, patient(kPauseBound));
  if (frozen.ok() || frozen.error().code() != Code::kDeadline) return frozen;
  TRY_VOID(cgroups.thaw(running.sandbox, patient(kPauseBound)));
  return std::move(frozen)
      .error()
      .with_word("pause_timeout")
      .with_hint("a process is stuck in the kernel, so the sandbox goes on; try again");
}

Result<void> end_processes(sys::Cgroups& cgroups, const Running& running) {
  cgroups.kill(running.sandbox);
  FAULT("runner.stop.after_kill");
  if (running.pidfd >= 0) {
    // KERNEL: the end of PID 1 of a pid namespace ends all of them (pid_namespaces(7)); needed without
    // cgroup.kill.
    TRY_VOID(sys::signal_process(running.pidfd, SIGKILL));
    if (!sys::wait_for_end(running.pidfd, patient(kStopBound))) {
      return make_error(Code::kDeadline, "process {} of sandbox {} does not end", running.pid,
                        running.sandbox)
          .with_hint("a process is stuck in the kernel; its resources stay reserved, try again");
    }
  }
  if (!cgroups.wait_empty(running.sandbox, patient(kStopBound))) {
    return make_error(Code::kDeadline, "processes of sandbox {} do not end", running.sandbox)
        .with_hint("a process is stuck in the kernel; its resources stay reserved, try again");
  }
  return success();
}

Result<std::array<std::uint64_t, 2>> overlay_use(const std::string& path, const std::string& sandbox) {
  struct statfs info{};
  TRY(Fd root, open_overlay(path, sandbox, O_PATH, info));
  auto unit = static_cast<std::uint64_t>(info.f_frsize);
  return std::array<std::uint64_t, 2>{(info.f_blocks - info.f_bfree) * unit, info.f_blocks * unit};
}

// KERNEL: syncfs(2) of an overlay writes out its upper layer (fs/overlayfs/super.c, ovl_sync_fs): data and
// tables of the disk reach its loop device, and so the image.
Result<void> overlay_sync(const std::string& path, const std::string& sandbox) {
  struct statfs info{};
  TRY(Fd root, open_overlay(path, sandbox, O_RDONLY, info));
  if (::syncfs(root.get()) != 0) return Error::from_errno(errno, "write out a disk");
  return success();
}

}  // namespace atl::runner
