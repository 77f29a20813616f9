// SPDX-License-Identifier: Apache-2.0
#include "runner/container/driver.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fault.h"
#include "model/guest_boot.h"
#include "runner/container/child.h"
#include "runner/disk_image.h"
#include "runner/names.h"
#include "sys/files.h"
#include "sys/mount.h"
#include "sys/process.h"

namespace atl::runner::container {
namespace {

using model::wire::StartStep;
using sys::Fd;

constexpr long kOverlayMagic = 0x794c7630;      // OVERLAYFS_SUPER_MAGIC
constexpr unsigned kMfdExec = 0x0010;           // MFD_EXEC, Linux 6.3
constexpr std::uint64_t kMinShm = 64ull << 20;  // of /dev/shm; half of the memory when that is more

std::uint32_t us_between(std::uint64_t from_ns, std::uint64_t to_ns) {
  return to_ns > from_ns ? static_cast<std::uint32_t>((to_ns - from_ns) / 1000) : 0;
}

std::uint64_t now_ns() { return static_cast<std::uint64_t>(Steady::now().time_since_epoch().count()); }

Result<std::pair<Fd, Fd>> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno(errno, "make a pipe");
  return std::pair<Fd, Fd>(Fd(ends[0]), Fd(ends[1]));
}

// The pipe from which the guest daemon reads what it is.
Result<Fd> boot_pipe(const StartSpec& spec) {
  model::GuestBoot boot{};
  boot.magic = model::kGuestBootMagic;
  boot.version = 1;
  std::copy(spec.internal_token.begin(), spec.internal_token.end(), boot.internal_token);
  boot.listen_fd = kGuestListenFd;
  boot.memory_events_fd = kGuestMemoryEventsFd;
  boot.memory_usage_fd = kGuestMemoryUsageFd;
  boot.memory_stat_fd = kGuestMemoryStatFd;
  boot.cpu_usage_fd = kGuestCpuUsageFd;
  boot.cpu_millis = spec.limits.cpu_millis;
  boot.open_files = spec.limits.open_files;
  boot.memory_bytes = spec.limits.memory_bytes;
  boot.disk_bytes = spec.limits.disk_bytes;
  std::strncpy(boot.sandbox, spec.sandbox.c_str(), sizeof boot.sandbox - 1);
  TRY(auto ends, make_pipe());
  TRY_VOID(
      sys::write_all(ends.second.get(), std::string_view(reinterpret_cast<const char*>(&boot), sizeof boot)));
  return std::move(ends.first);
}

PassedFds passed_fds(const Leases& leases, int lower, int status, int boot, int guestd) {
  PassedFds fds;
  fds.fill(-1);
  at(fds, Passed::kNetns) = leases.slot.netns.get();
  at(fds, Passed::kLower) = lower;
  at(fds, Passed::kDisk) = leases.disk.mount.get();
  at(fds, Passed::kKit) = leases.slot.kit.get();
  at(fds, Passed::kStatus) = status;
  at(fds, Passed::kBoot) = boot;
  at(fds, Passed::kGuestd) = guestd;
  at(fds, Passed::kListener) = leases.slot.listener.get();
  at(fds, Passed::kMemoryEvents) = leases.cgroup.memory_events.get();
  at(fds, Passed::kMemoryUsage) = leases.cgroup.memory_usage.get();
  at(fds, Passed::kMemoryStat) = leases.cgroup.memory_stat.get();
  at(fds, Passed::kCpuUsage) = leases.cgroup.cpu_usage.get();
  at(fds, Passed::kUnified) = leases.cgroup.unified.get();
  std::size_t first = static_cast<std::size_t>(Passed::kTasks0);
  for (std::size_t i = 0; i < leases.cgroup.tasks.size() && first + i < kPassedCount; ++i) {
    fds[first + i] = leases.cgroup.tasks[i].get();
  }
  return fds;
}

// One ChildReport, or nothing at the end of the pipe.
Result<std::optional<ChildReport>> read_report(int pipe, Steady::time_point until) {
  pollfd item{pipe, POLLIN, 0};
  for (;;) {
    auto left = std::chrono::duration_cast<Millis>(until - Steady::now());
    int n = ::poll(&item, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return make_error(Code::kDeadline, "the sandbox was not set up within {} ms", kStartBound.count());
    break;
  }
  ChildReport report{};
  ssize_t n = ::read(pipe, &report, sizeof report);  // at most PIPE_BUF bytes: never in parts (pipe(7))
  if (n == 0) return std::optional<ChildReport>();
  if (n != sizeof report) return Error::from_errno(n < 0 ? errno : EIO, "read the sandbox's report");
  return std::optional<ChildReport>(report);
}

Error child_error(const ChildReport& report) {
  return Error::from_errno(report.error,
                           fmt::format("set up the sandbox: {} (child.cc:{})", report.what, report.line));
}

// The root of PID 1 is the overlay, which speaks for the disk below it. The sandbox's root could change that
// only for itself; anything else than an overlay is refused.
Result<Fd> open_root(const Running& running, int flags, struct statfs& info) {
  TRY(Fd root, sys::open_file(fmt::format("/proc/{}/root", running.pid), flags | O_DIRECTORY));
  if (::fstatfs(root.get(), &info) != 0) return Error::from_errno(errno, "ask for disk use");
  if (info.f_type != kOverlayMagic)
    return make_error(Code::kInternal, "the root of {} is no overlay", running.sandbox);
  return root;
}

}  // namespace

ContainerDriver::ContainerDriver(Launcher& launcher, TemplateCache& templates, sys::Cgroups& cgroups,
                                 int guestd)
    : launcher_(launcher), templates_(templates), cgroups_(cgroups), guestd_(guestd) {}

Result<void> ContainerDriver::wait_for_exec(int status_pipe, StepTimes& times) {
  Steady::time_point until = Steady::now() + kStartBound;
  TRY(std::optional<ChildReport> report, read_report(status_pipe, until));
  if (!report) return make_error(Code::kInternal, "the sandbox died before it was set up");
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

Result<Started> ContainerDriver::start(const StartSpec& spec, Leases& leases, StepTimes& times) {
  std::uint64_t begin = now_ns();
  TRY(Fd lower, templates_.clone(spec.build, leases.slot.userns.get()));
  TRY_VOID(give_identity(leases.disk, spec.sandbox));
  TRY_VOID(sys::idmap_mount(leases.disk.mount.get(), leases.slot.userns.get()));
  TRY(Fd boot, boot_pipe(spec));
  TRY(auto status, make_pipe());

  LaunchOrder order{};
  order.kind = OrderKind::kContainer;
  order.launch_id = spec.launch_id;
  order.uid_base = uid_base(leases.slot.number);
  order.shm_bytes = std::max(spec.limits.memory_bytes / 2, std::min(kMinShm, spec.limits.memory_bytes));
  std::strncpy(order.hostname, spec.sandbox.c_str(), sizeof order.hostname - 1);
  PassedFds fds = passed_fds(leases, lower.get(), status.second.get(), boot.get(), guestd_);
  times[StartStep::kStepPrepare] = us_between(begin, now_ns());
  TRY(Launcher::Launched launched, launcher_.order(order, fds));
  FAULT("runner.start.after_clone");
  status.second.reset();
  times[StartStep::kStepClone] = launched.answer.clone_us;
  times[StartStep::kStepMaps] = launched.answer.maps_us;

  Started started;
  started.pid = launched.answer.pid;
  started.pidfd = std::move(launched.fd);
  Result<std::uint64_t> ticks = sys::start_ticks(started.pid);
  Result<void> ready = wait_for_exec(status.first.get(), times);
  FAULT("runner.start.after_exec");
  if (!ready.ok() || !ticks.ok()) {
    TRY_VOID(stop({spec.sandbox, started.pid, started.pidfd.get()}));
    return ready.ok() ? std::move(ticks).error() : std::move(ready).error();
  }
  started.start_ticks = *ticks;
  return started;
}

Capabilities ContainerDriver::capabilities() const {
  Capabilities capabilities;
  capabilities.pause = cgroups_.has_freeze();
  capabilities.disk_snapshot = capabilities.pause;
  return capabilities;
}

Result<void> ContainerDriver::pause(const Running& running) {
  Result<void> frozen = cgroups_.freeze(running.sandbox, kPauseBound);
  if (frozen.ok() || frozen.error().code() != Code::kDeadline) return frozen;
  TRY_VOID(cgroups_.thaw(running.sandbox, kPauseBound));
  return std::move(frozen)
      .error()
      .with_word("pause_timeout")
      .with_hint("a process is stuck in the kernel, so the sandbox goes on; try again");
}

Result<void> ContainerDriver::resume(const Running& running) {
  return cgroups_.thaw(running.sandbox, kPauseBound);
}

Result<void> ContainerDriver::stop(const Running& running) {
  cgroups_.kill(running.sandbox);
  FAULT("runner.stop.after_kill");
  if (running.pidfd >= 0) {
    // KERNEL: the end of PID 1 of a pid namespace ends all of them (pid_namespaces(7)); needed without
    // cgroup.kill.
    TRY_VOID(sys::signal_process(running.pidfd, SIGKILL));
    if (!sys::wait_for_end(running.pidfd, kStopBound)) {
      return make_error(Code::kDeadline, "process {} of sandbox {} does not end", running.pid,
                        running.sandbox)
          .with_hint("a process is stuck in the kernel; its resources stay reserved, try again");
    }
  }
  if (!cgroups_.wait_empty(running.sandbox, kStopBound)) {
    return make_error(Code::kDeadline, "processes of sandbox {} do not end", running.sandbox)
        .with_hint("a process is stuck in the kernel; its resources stay reserved, try again");
  }
  return success();
}

// KERNEL: syncfs(2) of an overlay writes out its upper layer (fs/overlayfs/super.c, ovl_sync_fs): data and
// tables of the disk reach its loop device, and so the image.
Result<void> ContainerDriver::sync(const Running& running) {
  struct statfs info{};
  TRY(Fd root, open_root(running, O_RDONLY, info));
  if (::syncfs(root.get()) != 0) return Error::from_errno(errno, "write out a disk");
  return success();
}

Result<std::array<std::uint64_t, 2>> ContainerDriver::inspect(const Running& running) {
  struct statfs info{};
  TRY(Fd root, open_root(running, O_PATH, info));
  auto unit = static_cast<std::uint64_t>(info.f_frsize);
  return std::array<std::uint64_t, 2>{(info.f_blocks - info.f_bfree) * unit, info.f_blocks * unit};
}

Result<Fd> seal_program(const std::string& path) {
  TRY(Fd source, sys::open_file(path, O_RDONLY));
  struct stat info{};
  if (::fstat(source.get(), &info) != 0) return Error::from_errno(errno, fmt::format("stat {}", path));
  // Kernels before 6.3 do not know MFD_EXEC, and do not need it.
  Fd memory(::memfd_create("atoll-guestd", MFD_CLOEXEC | MFD_ALLOW_SEALING | kMfdExec));
  if (!memory) memory = Fd(::memfd_create("atoll-guestd", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return Error::from_errno(errno, "make a memory file");
  for (off_t at = 0; at < info.st_size;) {
    ssize_t n = ::sendfile(memory.get(), source.get(), &at, static_cast<std::size_t>(info.st_size - at));
    if (n <= 0) return Error::from_errno(n < 0 ? errno : EIO, fmt::format("copy {}", path));
  }
  if (::fchmod(memory.get(), 0555) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
    return Error::from_errno(errno, "seal the guest daemon");
  }
  // KERNEL: a descriptor open for writing makes exec fail with ETXTBSY; a fresh one is read-only.
  return sys::open_file(fmt::format("/proc/self/fd/{}", memory.get()), O_RDONLY);
}

}  // namespace atl::runner::container
