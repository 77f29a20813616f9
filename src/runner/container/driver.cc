// SPDX-License-Identifier: Apache-2.0
#include "runner/container/driver.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fault.h"
#include "base/patience.h"
#include "model/guest_boot.h"
#include "runner/container/child.h"
#include "runner/disk_image.h"
#include "runner/names.h"
#include "runner/start_parts.h"
#include "sys/files.h"
#include "sys/mount.h"
#include "sys/process.h"

namespace atl::runner::container {
namespace {

using model::wire::StartStep;
using sys::Fd;

constexpr unsigned kMfdExec = 0x0010;  // MFD_EXEC, Linux 6.3

PassedFds passed_fds(const Leases& leases, int lower, int status, int boot, int guestd) {
  PassedFds fds = runner::passed_fds(leases);
  at(fds, Passed::kLower) = lower;
  at(fds, Passed::kStatus) = status;
  at(fds, Passed::kBoot) = boot;
  at(fds, Passed::kGuestd) = guestd;
  at(fds, Passed::kListener) = leases.slot.listener.get();
  at(fds, Passed::kMemoryEvents) = leases.cgroup.memory_events.get();
  at(fds, Passed::kMemoryUsage) = leases.cgroup.memory_usage.get();
  at(fds, Passed::kMemoryStat) = leases.cgroup.memory_stat.get();
  at(fds, Passed::kCpuUsage) = leases.cgroup.cpu_usage.get();
  return fds;
}

model::GuestBoot boot_of(const StartSpec& spec, bool with_group) {
  model::GuestBoot boot = guest_boot(spec);
  boot.listen_fd = kGuestListenFd;
  boot.memory_events_fd = kGuestMemoryEventsFd;
  boot.memory_usage_fd = kGuestMemoryUsageFd;
  boot.memory_stat_fd = kGuestMemoryStatFd;
  boot.cpu_usage_fd = kGuestCpuUsageFd;
  if (with_group) boot.cgroup_fd = kGuestCgroupFd;
  return boot;
}

}  // namespace

ContainerDriver::ContainerDriver(Launcher& launcher, TemplateCache& templates, sys::Cgroups& cgroups,
                                 int guestd)
    : launcher_(launcher), templates_(templates), cgroups_(cgroups), guestd_(guestd) {}

Result<Started> ContainerDriver::start(const StartSpec& spec, Leases& leases, StepTimes& times) {
  std::uint64_t begin = now_ns();
  TRY(Fd lower, templates_.clone(spec.build, leases.slot.userns.get()));
  TRY_VOID(give_identity(leases.disk, spec.sandbox));
  TRY_VOID(sys::idmap_mount(leases.disk.mount.get(), leases.slot.userns.get()));
  // Not the directory itself: from there ".." leads to all that this host has mounted.
  Fd group;
  if (leases.cgroup.unified) {
    TRY(group, sys::clone_mount(leases.cgroup.unified.get(), ""));
  }
  TRY(Fd boot, boot_pipe(boot_of(spec, static_cast<bool>(group))));
  TRY(auto status, make_pipe());

  LaunchOrder order{};
  order.kind = OrderKind::kContainer;
  order.launch_id = spec.launch_id;
  order.uid_base = uid_base(leases.slot.number);
  order.shm_bytes = shm_bytes(spec.limits);
  std::strncpy(order.hostname, spec.sandbox.c_str(), sizeof order.hostname - 1);
  PassedFds fds = passed_fds(leases, lower.get(), status.second.get(), boot.get(), guestd_);
  at(fds, Passed::kGroup) = group.get();
  times[StartStep::kStepPrepare] = us_between(begin, now_ns());
  TRY(Launcher::Launched launched, launcher_.order(order, fds));
  FAULT("runner.start.after_clone");
  status.second.reset();
  times[StartStep::kStepClone] = launched.answer.clone_us;
  times[StartStep::kStepMaps] = launched.answer.maps_us;

  Started started;
  started.labels = static_cast<bool>(group);
  started.pid = launched.answer.pid;
  started.pidfd = std::move(launched.fd);
  Result<std::uint64_t> ticks = sys::start_ticks(started.pid);
  Result<void> ready = wait_for_setup(status.first.get(), times);
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

Result<void> ContainerDriver::pause(const Running& running) { return freeze_processes(cgroups_, running); }

Result<void> ContainerDriver::resume(const Running& running, bool& may_run) {
  may_run = true;
  return cgroups_.thaw(running.sandbox, patient(kPauseBound));
}

Result<void> ContainerDriver::stop(const Running& running) { return end_processes(cgroups_, running); }

Result<void> ContainerDriver::sync(const Running& running) {
  return overlay_sync(fmt::format("/proc/{}/root", running.pid), running.sandbox);
}

// The root of PID 1 is the overlay, which speaks for the disk below it. The sandbox's root could change that
// only for itself.
Result<std::array<std::uint64_t, 2>> ContainerDriver::inspect(const Running& running) {
  return overlay_use(fmt::format("/proc/{}/root", running.pid), running.sandbox);
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
