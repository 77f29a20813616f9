// SPDX-License-Identifier: Apache-2.0
#include "runner/microvm/check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include <cerrno>
#include <limits>

#include "base/log.h"
#include "base/patience.h"
#include "base/units.h"
#include "model/machine.h"
#include "runner/self_tests.h"
#include "runner/start_parts.h"
#include "sys/files.h"
#include "sys/loop.h"
#include "sys/mount.h"
#include "sys/seqpacket.h"

namespace atl::runner::microvm {
namespace {

using sys::Fd;

// Some hosts have a /dev/kvm that opens, and a kernel behind it that interprets the guest instruction by
// instruction; others are virtual machines themselves, and slow, but KVM works. So no less than at any other
// start.
constexpr Millis kKvmBound = kBootBound;
constexpr Millis kSlotBound{5'000};
constexpr std::uint64_t kTestMemory = 128 * kMiB;
constexpr std::uint32_t kTestProcesses = 64;

// What the outcome depends on, apart from this boot of the host. Kernel and QEMU are in the image.
Result<std::string> subject_of(const TestParts& parts) {
  struct stat info{};
  if (::stat(parts.image.c_str(), &info) != 0)
    return Error::from_errno(errno, fmt::format("stat {}", parts.image));
  return fmt::format("{} {} {}.{:09} emulation {}", info.st_dev, info.st_ino, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec, parts.emulation ? "allowed" : "not allowed");
}

// An outcome as it is kept: a word, or why there is no accelerator.
constexpr std::string_view kKvmWord = "kvm", kEmulationWord = "emulation";

Result<void> boot_one(const TestParts& parts, Leases& leases, Millis bound) {
  StartSpec spec;
  spec.sandbox = kTestSandbox;
  spec.limits = {kTestMemory, 1000, kTestProcesses, 1024, parts.disk_bytes};
  TRY(leases.disk, parts.disks.lease_closed(kTestSandbox, parts.disk_bytes));
  model::Overhead overhead = parts.driver.overhead();
  TRY(leases.cgroup, parts.cgroups.create(kTestSandbox, {kTestMemory + overhead.memory_bytes, 1000,
                                                         kTestProcesses + overhead.processes}));
  // The guest daemon is no part of a template, so any image will do for one.
  TRY(Fd lower, sys::open_file(parts.image, O_RDONLY));
  StepTimes times{};
  TRY(Started started, parts.driver.start_on(lower.get(), bound, spec, leases, times));
  return parts.driver.stop({kTestSandbox, started.pid, started.pidfd.get()});
}

Result<void> try_boot(const TestParts& parts, Millis bound) {
  Leases leases;
  TRY(leases.slot, parts.slots.lease(patient(kSlotBound)));
  std::uint32_t number = leases.slot.number;
  Result<void> result = boot_one(parts, leases, bound);
  leases = {};
  take_back(parts.cgroups, parts.disks, parts.slots, kTestSandbox, number);
  return result;
}

Result<Accelerator> find_accelerator(const TestParts& parts, std::uint32_t tsc_khz) {
  Result<Fd> kvm = sys::open_file("/dev/kvm", O_RDWR);
  Result<void> works = kvm.ok() ? success() : Result<void>(std::move(kvm).error());
  if (works.ok()) {
    parts.driver.use(Accelerator::kKvm, tsc_khz);
    works = try_boot(parts, patient(kKvmBound));
  }
  if (works.ok()) return Accelerator::kKvm;
  if (works.error().word() == "host_capacity") return std::move(works).error();
  if (!parts.emulation)
    return std::move(works).error().context("KVM does not work here, and emulation is not allowed");
  log::info("KVM does not work, emulation is used", {{"why", works.error().message()}});
  parts.driver.use(Accelerator::kEmulation, tsc_khz);
  Result<void> emulated = try_boot(parts, patient(kBootBound));
  if (!emulated.ok()) return std::move(emulated).error().context("self-test, emulated");
  return Accelerator::kEmulation;
}

}  // namespace

std::string machine_path(const std::string& data_dir) {
  return fmt::format("{}/{}/{}", data_dir, model::kMachineFolder, model::kMachineImage);
}

Result<void> mount_machine(const std::string& data_dir, const std::string& directory) {
  std::string path = machine_path(data_dir);
  Result<Fd> image = sys::open_file(path, O_RDONLY | O_NOFOLLOW);
  if (!image.ok()) return std::move(image).error().context("machine image");
  TRY(sys::LoopDevice loop, sys::attach_loop(image->get(), sys::LoopMode::kReadOnly));
  TRY(Fd mount, sys::mount_new("erofs", {{"source", loop.path}, {"ro", ""}},
                               sys::kReadOnly | sys::kNoSuid | sys::kNoDev));
  TRY_VOID(sys::ensure_directory(directory, 0700));
  return sys::attach_mount(mount.get(), directory);
}

// KERNEL: where the kernel itself trusts the counter as its clock, it does not change its rate (tsc,
// "clocksource"). Of several readings the one during which least time passed is taken, since this process may
// be interrupted.
std::uint32_t measure_tsc_khz() {
  struct Point {
    std::uint64_t ns, ticks, width;
  };
  auto look = [] {
    Point best{0, 0, std::numeric_limits<std::uint64_t>::max()};
    for (int i = 0; i < 64; ++i) {
      std::uint64_t before = __rdtsc();
      std::uint64_t ns = now_ns();
      std::uint64_t after = __rdtsc();
      if (after - before < best.width) best = {ns, before + (after - before) / 2, after - before};
    }
    return best;
  };
  Point first = look();
  ::usleep(20'000);
  Point last = look();
  return static_cast<std::uint32_t>((last.ticks - first.ticks) * 1'000'000 / (last.ns - first.ns));
}

std::optional<Result<Accelerator>> known_accelerator(const TestParts& parts) {
  Result<std::string> subject = subject_of(parts);
  if (!subject.ok()) return Result<Accelerator>(std::move(subject).error());
  std::optional<std::string> kept = recall_outcome(parts.memory, *subject);
  if (!kept) return std::nullopt;
  Accelerator found = *kept == kKvmWord ? Accelerator::kKvm : Accelerator::kEmulation;
  parts.driver.use(found, measure_tsc_khz());
  return Result<Accelerator>(found);
}

Result<Accelerator> choose_accelerator(const TestParts& parts) {
  TRY(std::string subject, subject_of(parts));
  Result<Accelerator> found = find_accelerator(parts, measure_tsc_khz());
  // A failure is not kept: the runner may have broken the test off, and what was in the way may be gone.
  if (found.ok())
    keep_outcome(parts.memory, subject, std::string(*found == Accelerator::kKvm ? kKvmWord : kEmulationWord));
  return found;
}

}  // namespace atl::runner::microvm
