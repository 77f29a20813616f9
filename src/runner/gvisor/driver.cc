// SPDX-License-Identifier: Apache-2.0
#include "runner/gvisor/driver.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/patience.h"
#include "runner/disk_image.h"
#include "runner/gvisor/bundle.h"
#include "runner/gvisor/child.h"
#include "runner/gvisor/log_file.h"
#include "runner/gvisor/memory_files.h"
#include "runner/image_copy.h"
#include "runner/names.h"
#include "runner/netns.h"
#include "runner/start_parts.h"
#include "sys/files.h"
#include "sys/mount.h"
#include "sys/process.h"

namespace atl::runner::gvisor {
namespace {

using model::wire::StartStep;
using sys::Fd;

constexpr std::size_t kLogBytes = 64 * 1024;

Result<void> wait_until_ready(int pipe) {
  pollfd item{pipe, POLLIN, 0};
  auto until = Steady::now() + patient(kStartBound);
  int n;
  do {
    auto left = std::chrono::duration_cast<Millis>(until - Steady::now());
    n = ::poll(&item, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
  } while (n < 0 && errno == EINTR);
  if (n <= 0)
    return make_error(Code::kDeadline, "the guest daemon did not answer within {} ms",
                      patient(kStartBound).count());
  char byte;
  if (::read(pipe, &byte, 1) != 1)
    return make_error(Code::kInternal, "the guest daemon ended before it listened");
  return success();
}

}  // namespace

// KERNEL: F_SEAL_GROW makes every write past the end fail (memfd_create(2)), so what runsc says has a bound
// that no process has to watch.
Result<Fd> make_log() {
  Fd log(::memfd_create("runsc-log", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!log || ::ftruncate(log.get(), kLogBytes) != 0 ||
      ::fcntl(log.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return Error::from_errno(errno, "make a log for runsc");
  }
  return log;
}

Result<std::string> mount_program(int program, const std::string& directory) {
  struct stat info{};
  if (::fstat(program, &info) != 0) return Error::from_errno(errno, "stat the guest daemon");
  TRY(Fd mount, sys::mount_new("tmpfs", {{"mode", "0755"}, {"nr_inodes", "4"}}, sys::kNoSuid | sys::kNoDev));
  {
    TRY(Fd copy, sys::open_at(mount.get(), "atoll-guestd", O_WRONLY | O_CREAT | O_EXCL, 0555));
    for (off_t at = 0; at < info.st_size;) {
      ssize_t n = ::sendfile(copy.get(), program, &at, static_cast<std::size_t>(info.st_size - at));
      if (n <= 0) return Error::from_errno(n < 0 ? errno : EIO, "copy the guest daemon");
    }
  }
  // Memory in files names what programs were mapped from by size and time: the same program, the same time.
  const timespec times[2] = {info.st_mtim, info.st_mtim};
  if (::utimensat(mount.get(), "atoll-guestd", times, 0) != 0)
    return Error::from_errno(errno, "set the time of the guest daemon");
  TRY_VOID(sys::restrict_mount(mount.get(), sys::kReadOnly | sys::kNoSuid | sys::kNoDev));
  TRY_VOID(sys::ensure_directory(directory, 0700));
  TRY_VOID(sys::attach_mount(mount.get(), directory));
  return directory + "/atoll-guestd";
}

Result<std::string> runtime_text(const Result<sys::Fd>& runsc, int guestd) {
  if (!runsc.ok()) return std::string();
  constexpr std::size_t kShown = 8;  // bytes of each digest
  TRY(Digest::Value kernel, digest_image(runsc->get()));
  TRY(Digest::Value daemon, digest_image(guestd));
  auto shown = [](const Digest::Value& value) {
    return hex_encode({reinterpret_cast<const char*>(value.data()), kShown});
  };
  return fmt::format("runsc {} atoll-guestd {}", shown(kernel), shown(daemon));
}

// Our ends, by what they are for; theirs are closed once the child has them.
struct GvisorDriver::Pipes {
  std::pair<Fd, Fd> status, ready, go;
  Fd boot, bundle, log;
  std::array<Fd, kMemoryFileCount> memory;  // mounts of the files; read-only
  bool restores = false;

  static Result<Pipes> make(const StartSpec& spec) {
    Pipes pipes;
    TRY(pipes.status, make_pipe());
    TRY(pipes.ready, make_pipe());
    TRY(pipes.go, make_pipe());
    model::GuestBoot boot = guest_boot(spec);
    boot.ready_fd = kGuestReadyFd;
    TRY(pipes.boot, boot_pipe(boot));
    TRY(pipes.bundle, filled_pipe(bundle_config(spec)));
    TRY(pipes.log, make_log());
    return pipes;
  }
  void pass(PassedFds& fds) const {
    at(fds, Passed::kStatus) = status.second.get();
    at(fds, Passed::kBoot) = boot.get();
    at(fds, Passed::kGo) = go.first.get();
    at(fds, Passed::kBundle) = bundle.get();
    at(fds, Passed::kReady) = ready.second.get();
    at(fds, Passed::kLog) = log.get();
    for (std::size_t i = 0; i < kMemoryFileCount; ++i) at(fds, memory_fd(i)) = memory[i].get();
  }
  void close_theirs() {
    status.second.reset();
    ready.second.reset();
    go.first.reset();
  }
};

// The link of the slot goes to the network namespace over which the sandbox's user namespace has rights:
// runsc opens a raw socket on it. The name and the address of the host's end stay, and with them all rules.
Result<void> GvisorDriver::bring_network(int pidfd, Slot& slot) {
  NetnsVisit visit(tools_.host_netns);
  if (::setns(pidfd, CLONE_NEWNET) != 0) return Error::from_errno(errno, "enter the sandbox's network");
  TRY(Fd target, sys::open_file("/proc/thread-self/ns/net", O_RDONLY));
  // As in the slot: IPv6 stays on lo only.
  TRY_VOID(sys::write_file("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"));
  TRY(sys::Netlink inside, sys::Netlink::open_route());
  if (::setns(slot.netns.get(), CLONE_NEWNET) != 0) return Error::from_errno(errno, "enter the slot");
  TRY(sys::Netlink outside, sys::Netlink::open_route());
  TRY(std::uint32_t link, outside.link_index("eth0"));
  TRY_VOID(outside.move_link(link, target.get()));
  return configure_inside(inside);
}

Result<void> GvisorDriver::complete(const Started& started, Leases& leases, Pipes& pipes, StepTimes& times) {
  TRY_VOID(bring_network(started.pidfd.get(), leases.slot));
  if (::write(pipes.go.second.get(), "", 1) != 1) return Error::from_errno(errno, "release runsc");
  TRY_VOID(wait_for_setup(pipes.status.first.get(), times));
  FAULT("runner.start.after_exec");
  if (pipes.restores) return success();
  return wait_until_ready(pipes.ready.first.get());
}

// For people. A log that cannot be kept does not change the outcome.
void GvisorDriver::keep_log(int log) const {
  std::string text(kLogBytes, '\0');
  ssize_t size = ::pread(log, text.data(), text.size(), 0);
  text.resize(std::min(size < 0 ? 0 : static_cast<std::size_t>(size), text.find('\0')));
  Result<void> kept = sys::replace_file(tools_.log_file, text, 0600);
  if (!kept.ok()) log::warn("what runsc said is lost", {{"error", kept.error().message()}});
}

Result<Started> GvisorDriver::start(const StartSpec& spec, Leases& leases, StepTimes& times) {
  TRY(Fd lower, tools_.templates.clone(spec.build, leases.slot.userns.get()));
  return start_on(lower.get(), spec, leases, times);
}

Result<Started> GvisorDriver::start_on(int lower, const StartSpec& spec, Leases& leases, StepTimes& times) {
  TRY_VOID(give_identity(leases.disk, spec.sandbox));
  TRY(Pipes pipes, Pipes::make(spec));
  return launch(lower, pipes, spec, leases, times);
}

// One that goes on under its name has what identifies it: a process may have those files open, and runsc
// wants to find what it left.
Result<Started> GvisorDriver::restore(const StartSpec& spec, Leases& leases, const std::string& folder,
                                      StepTimes& times) {
  TRY(Fd lower, tools_.templates.clone(spec.build, leases.slot.userns.get()));
  if (spec.as_child) TRY_VOID(give_identity(leases.disk, spec.sandbox));
  TRY(Pipes pipes, Pipes::make(spec));
  pipes.restores = true;
  for (std::size_t i = 0; i < kMemoryFileCount; ++i) {
    TRY(pipes.memory[i], sys::clone_mount(AT_FDCWD, fmt::format("{}/{}", folder, kMemoryFiles[i])));
    TRY_VOID(sys::restrict_mount(pipes.memory[i].get(),
                                 sys::kReadOnly | sys::kNoSuid | sys::kNoDev | sys::kNoExec));
  }
  TRY(Started started, launch(lower.get(), pipes, spec, leases, times));
  std::lock_guard lock(mutex_);
  logs_[started.pid] = std::move(pipes.log);
  return started;
}

Result<Started> GvisorDriver::launch(int lower, Pipes& pipes, const StartSpec& spec, Leases& leases,
                                     StepTimes& times) {
  std::uint64_t begin = now_ns();
  TRY_VOID(sys::idmap_mount(leases.disk.mount.get(), leases.slot.userns.get()));
  TRY(Fd guestd, sys::clone_mount(AT_FDCWD, tools_.guestd));
  leases.slot.listener.reset();  // of the host's network stack, which the guest does not use

  LaunchOrder order{};
  order.kind = OrderKind::kGvisor;
  order.launch_id = spec.launch_id;
  order.uid_base = uid_base(leases.slot.number);
  order.memory_bytes = spec.limits.memory_bytes;
  PassedFds fds = passed_fds(leases);
  at(fds, Passed::kNetns) = -1;
  at(fds, Passed::kLower) = lower;
  at(fds, Passed::kGuestd) = guestd.get();
  at(fds, Passed::kProgram) = tools_.runsc;
  pipes.pass(fds);
  times[StartStep::kStepPrepare] = us_between(begin, now_ns());
  TRY(Launcher::Launched launched, tools_.launcher.order(order, fds));
  FAULT("runner.start.after_clone");
  pipes.close_theirs();
  times[StartStep::kStepClone] = launched.answer.clone_us;
  times[StartStep::kStepMaps] = launched.answer.maps_us;

  Started started;
  started.pid = launched.answer.pid;
  started.pidfd = std::move(launched.fd);
  Result<std::uint64_t> ticks = sys::start_ticks(started.pid);
  Result<void> ready = ticks.ok() ? complete(started, leases, pipes, times) : std::move(ticks).error();
  if (!ready.ok()) {
    keep_log(pipes.log.get());
    TRY_VOID(stop({spec.sandbox, started.pid, started.pidfd.get()}));
    return std::move(ready).error().with_hint(fmt::format("what runsc said is in {}", tools_.log_file));
  }
  started.start_ticks = *ticks;
  return started;
}

Capabilities GvisorDriver::capabilities() const {
  Capabilities capabilities;
  capabilities.pause = tools_.cgroups.has_freeze();
  capabilities.disk_snapshot = capabilities.pause;
  capabilities.memory_snapshot = capabilities.quiet_memory = capabilities.pause;
  return capabilities;
}

Result<void> GvisorDriver::pause(const Running& running) { return freeze_processes(tools_.cgroups, running); }

Result<void> GvisorDriver::stop(const Running& running) {
  {
    std::lock_guard lock(mutex_);
    logs_.erase(running.pid);
  }
  return end_processes(tools_.cgroups, running);
}

// The guest's kernel keeps no data of files back: the gofer gives it the host's own descriptors, so what a
// process writes is the host's at once.
Result<void> GvisorDriver::sync(const Running& running) {
  return overlay_sync(fmt::format("/proc/{}/root/rootfs", running.pid), running.sandbox);
}

// PID 1's own root holds the guest's, and no process of the guest can change it.
Result<std::array<std::uint64_t, 2>> GvisorDriver::inspect(const Running& running) {
  return overlay_use(fmt::format("/proc/{}/root/rootfs", running.pid), running.sandbox);
}

}  // namespace atl::runner::gvisor
