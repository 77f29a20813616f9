// SPDX-License-Identifier: Apache-2.0
#include "runner/microvm/driver.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/fault.h"
#include "base/log.h"
#include "base/units.h"
#include "model/machine.h"
#include "runner/disk_image.h"
#include "runner/microvm/child.h"
#include "runner/microvm/link.h"
#include "runner/names.h"
#include "runner/start_parts.h"
#include "runner/templates.h"
#include "sys/files.h"
#include "sys/mount.h"
#include "sys/process.h"

namespace atl::runner::microvm {
namespace {

using model::wire::StartStep;
using sys::Fd;

constexpr std::size_t kLogBytes = 64 * 1024;
constexpr Millis kSettleBound{5'000};
// Below it the guest's kernel has no room for its own start.
constexpr std::uint64_t kMinMemory = 128 * kMiB;
constexpr std::uint32_t kMaxProcessors = 8;
// QEMU's own: the program, buffers, tables, and emulated also translated code, which has a bound (child.cc).
constexpr std::uint64_t kOwnMemory = 96 * kMiB, kTranslatedCode = 160 * kMiB;
// Its threads: processors, main loop, and up to 64 that do file I/O.
constexpr std::uint32_t kOwnProcesses = 96;

// KERNEL: F_SEAL_GROW makes every write past the end fail (memfd_create(2)), so what is said has a bound that
// no process has to watch.
Result<Fd> make_log() {
  Fd log(::memfd_create("machine-log", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!log || ::ftruncate(log.get(), kLogBytes) != 0 ||
      ::fcntl(log.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return Error::from_errno(errno, "make a log for QEMU");
  }
  return log;
}

// /dev of QEMU: what it may open. Owned by its user; nothing can be made in it.
Result<Fd> make_devices(std::uint32_t owner, bool kvm) {
  TRY(Fd dev, sys::mount_new("tmpfs", {{"size", "4k"}, {"nr_inodes", "8"}, {"mode", "0755"}}, sys::kNoSuid));
  const struct {
    const char* name;
    unsigned major, minor;
    bool wanted;
  } nodes[] = {{"null", 1, 3, true}, {"urandom", 1, 9, true}, {"kvm", 10, 232, kvm}};
  for (const auto& node : nodes) {
    if (!node.wanted) continue;
    if (::mknodat(dev.get(), node.name, S_IFCHR | 0600, makedev(node.major, node.minor)) != 0 ||
        ::fchownat(dev.get(), node.name, owner, owner, 0) != 0)
      return Error::from_errno(errno, fmt::format("make /dev/{} for QEMU", node.name));
  }
  TRY_VOID(sys::restrict_mount(dev.get(), sys::kReadOnly | sys::kNoSuid | sys::kNoExec));
  return dev;
}

Result<void> send_boot(int channel, const StartSpec& spec) {
  model::MachineBoot boot{};
  boot.magic = model::kMachineBootMagic;
  boot.processes = spec.limits.processes;
  boot.shm_bytes = shm_bytes(spec.limits);
  boot.guest = guest_boot(spec);
  if (::send(channel, &boot, sizeof boot, MSG_NOSIGNAL) != sizeof boot)
    return Error::from_errno(errno, "tell the guest what to start");
  return success();
}

Result<void> wait_until_ready(int channel, Millis bound) {
  pollfd item{channel, POLLIN, 0};
  auto until = Steady::now() + bound;
  int n;
  do {
    auto left = std::chrono::duration_cast<Millis>(until - Steady::now());
    n = ::poll(&item, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
  } while (n < 0 && errno == EINTR);
  if (n <= 0) return make_error(Code::kDeadline, "the guest did not answer within {} ms", bound.count());
  char byte;
  if (::read(channel, &byte, 1) != 1)
    return make_error(Code::kInternal, "QEMU ended before the guest daemon listened");
  return success();
}

std::uint32_t processors(const model::Limits& limits) {
  std::uint32_t wanted = std::min((limits.cpu_millis + 999) / 1000, kMaxProcessors);
  return std::clamp(wanted, 1u, std::max(std::thread::hardware_concurrency(), 1u));
}

}  // namespace

struct MicrovmDriver::Parts {
  Fd machine, devices, image, tap, log;
  std::pair<Fd, Fd> status;   // the end to read, the end to write
  std::pair<Fd, Fd> channel;  // ours, QEMU's

  void close_theirs() {
    status.second.reset();
    channel.second.reset();
    tap.reset();
    image.reset();
  }
};

Capabilities MicrovmDriver::capabilities() const {
  Capabilities capabilities;
  capabilities.pause = tools_.cgroups.has_freeze();
  capabilities.guest_disk = true;
  return capabilities;
}

Overhead MicrovmDriver::overhead() const {
  std::uint64_t code = accelerator_ == Accelerator::kEmulation ? kTranslatedCode : 0;
  return {kOwnMemory + code, kOwnProcesses};
}

Result<Fd> MicrovmDriver::open_template(const std::string& build) const {
  Result<Fd> image =
      sys::open_file(fmt::format("{}/{}/root.erofs", tools_.templates, build), O_RDONLY | O_NOFOLLOW);
  if (image.ok()) return image;
  return std::move(image)
      .error()
      .context(fmt::format("template build {}", build))
      .with_word("template_not_found")
      .with_hint("build the template again: atoll template");
}

Result<void> MicrovmDriver::prepare(const std::string& build) {
  Result<Fd> image = open_template(build);
  return image.ok() ? success() : Result<void>(std::move(image).error());
}

// The disk is unmounted here before the guest's kernel has it.
Result<MicrovmDriver::Parts> MicrovmDriver::make_parts(const StartSpec& spec, Leases& leases) const {
  Parts parts;
  if (leases.disk.mount) {
    TRY_VOID(give_identity(leases.disk, spec.sandbox));
    leases.disk.mount.reset();
    TRY_VOID(tools_.disks.settle(spec.sandbox, kSettleBound));
  }
  TRY(parts.image, tools_.disks.open_image(spec.sandbox, O_RDWR));
  leases.slot.listener.reset();  // of the slot's network stack, which is only on the way here
  TRY(parts.tap, make_cable(leases.slot, tools_.host_netns));
  TRY(parts.machine, sys::clone_mount(AT_FDCWD, tools_.machine));
  TRY(parts.devices,
      make_devices(uid_base(leases.slot.number) + kMachineUser, accelerator_ == Accelerator::kKvm));
  TRY(parts.log, make_log());
  TRY(parts.status, make_pipe());
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Error::from_errno(errno, "make a channel to the guest");
  parts.channel = {Fd(ends[0]), Fd(ends[1])};
  TRY_VOID(send_boot(parts.channel.first.get(), spec));
  return parts;
}

Result<void> MicrovmDriver::complete(Millis bound, Parts& parts, StepTimes& times) const {
  TRY_VOID(wait_for_setup(parts.status.first.get(), times));
  FAULT("runner.start.after_exec");
  return wait_until_ready(parts.channel.first.get(), bound);
}

// For people. A log that cannot be kept does not change the outcome.
void MicrovmDriver::keep_log(int log) const {
  std::string text(kLogBytes, '\0');
  ssize_t size = ::pread(log, text.data(), text.size(), 0);
  text.resize(std::min(size < 0 ? 0 : static_cast<std::size_t>(size), text.find('\0')));
  Result<void> kept = sys::replace_file(tools_.log_file, text, 0600);
  if (!kept.ok()) log::warn("what QEMU said is lost", {{"error", kept.error().message()}});
}

Result<Started> MicrovmDriver::start(const StartSpec& spec, Leases& leases, StepTimes& times) {
  TRY(Fd lower, open_template(spec.build));
  return start_on(lower.get(), kBootBound, spec, leases, times);
}

Result<Started> MicrovmDriver::start_on(int lower, Millis bound, const StartSpec& spec, Leases& leases,
                                        StepTimes& times) {
  if (spec.limits.memory_bytes < kMinMemory) {
    return make_error(Code::kInvalid, "tier microvm needs at least {} MiB of memory", kMinMemory / kMiB)
        .with_hint("ask for more memory, or build the template with more");
  }
  std::uint64_t begin = now_ns();
  TRY(Parts parts, make_parts(spec, leases));
  LaunchOrder order{};
  order.kind = OrderKind::kMicrovm;
  order.launch_id = spec.launch_id;
  order.uid_base = uid_base(leases.slot.number);
  order.memory_bytes = spec.limits.memory_bytes;
  order.processors = processors(spec.limits);
  order.emulated = accelerator_ == Accelerator::kEmulation ? 1 : 0;
  order.tsc_khz = tsc_khz_;
  PassedFds fds = passed_fds(leases);
  at(fds, Passed::kDisk) = -1;
  at(fds, Passed::kKit) = parts.devices.get();
  at(fds, Passed::kLower) = parts.machine.get();
  at(fds, Passed::kStatus) = parts.status.second.get();
  at(fds, Passed::kGuestd) = tools_.guestd;
  at(fds, Passed::kLog) = parts.log.get();
  at(fds, Passed::kImage) = parts.image.get();
  at(fds, Passed::kTemplate) = lower;
  at(fds, Passed::kTap) = parts.tap.get();
  at(fds, Passed::kChannel) = parts.channel.second.get();
  times[StartStep::kStepPrepare] = us_between(begin, now_ns());
  TRY(Launcher::Launched launched, tools_.launcher.order(order, fds));
  FAULT("runner.start.after_clone");
  parts.close_theirs();
  times[StartStep::kStepClone] = launched.answer.clone_us;
  times[StartStep::kStepMaps] = launched.answer.maps_us;

  Started started;
  started.pid = launched.answer.pid;
  started.pidfd = std::move(launched.fd);
  Result<std::uint64_t> ticks = sys::start_ticks(started.pid);
  Result<void> ready = ticks.ok() ? complete(bound, parts, times) : std::move(ticks).error();
  if (!ready.ok()) {
    keep_log(parts.log.get());
    TRY_VOID(stop({spec.sandbox, started.pid, started.pidfd.get()}));
    return std::move(ready).error().with_hint(
        fmt::format("what QEMU and the guest said is in {}", tools_.log_file));
  }
  started.start_ticks = *ticks;
  return started;
}

Result<void> MicrovmDriver::pause(const Running& running) {
  tools_.cgroups.release_kernel_threads(running.sandbox);
  return freeze_processes(tools_.cgroups, running);
}

Result<void> MicrovmDriver::resume(const Running& running) {
  return tools_.cgroups.thaw(running.sandbox, kPauseBound);
}

Result<void> MicrovmDriver::stop(const Running& running) { return end_processes(tools_.cgroups, running); }

Result<std::array<std::uint64_t, 2>> MicrovmDriver::inspect(const Running& running) {
  TRY(Fd image, tools_.disks.open_image(running.sandbox, O_RDONLY));
  struct stat info{};
  if (::fstat(image.get(), &info) != 0) return Error::from_errno(errno, "ask for disk use");
  return std::array<std::uint64_t, 2>{static_cast<std::uint64_t>(info.st_blocks) * 512,
                                      static_cast<std::uint64_t>(info.st_size)};
}

}  // namespace atl::runner::microvm
