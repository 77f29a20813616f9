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
#include "base/units.h"
#include "model/machine.h"
#include "runner/start_parts.h"
#include "sys/files.h"
#include "sys/loop.h"
#include "sys/mount.h"
#include "sys/seqpacket.h"

namespace atl::runner::microvm {
namespace {

using sys::Fd;

constexpr char kSandbox[] = "iselftestofthemicrovm";
// Some hosts have a /dev/kvm that opens, and a kernel behind it that interprets the guest instruction by
// instruction; others are virtual machines themselves, and slow, but KVM works. So no less than at any other
// start.
constexpr Millis kKvmBound = kBootBound;
constexpr Millis kSlotBound{5'000};
constexpr std::uint64_t kTestMemory = 128 * kMiB;
constexpr std::uint32_t kTestProcesses = 64;
constexpr std::uint32_t kMagic = 0x4d54534d;

// What an earlier self-test found, and of what.
struct Memory {
  std::uint32_t magic;
  Accelerator accelerator;
  std::uint64_t device, inode, changed_ns;  // of the machine image
  std::uint32_t emulation;
  std::uint32_t pad;
  char boot[40];
  char why[256];  // where there is no accelerator
};

Result<Memory> question(const TestParts& parts) {
  Memory memory{};
  memory.magic = kMagic;
  struct stat info{};
  if (::stat(parts.image.c_str(), &info) != 0)
    return Error::from_errno(errno, fmt::format("stat {}", parts.image));
  memory.device = info.st_dev;
  memory.inode = info.st_ino;
  memory.changed_ns = static_cast<std::uint64_t>(info.st_mtim.tv_sec) * 1'000'000'000u +
                      static_cast<std::uint64_t>(info.st_mtim.tv_nsec);
  memory.emulation = parts.emulation ? 1 : 0;
  TRY(std::string boot, sys::read_file("/proc/sys/kernel/random/boot_id"));
  std::strncpy(memory.boot, boot.c_str(), sizeof memory.boot - 1);
  return memory;
}

// The outcome of the same question, where it was asked before.
std::optional<Memory> recall(const std::string& path, const Memory& question) {
  Result<std::string> bytes = sys::read_file(path, 2 * sizeof(Memory));
  Memory found{};
  if (!bytes.ok() || bytes->size() != sizeof found) return std::nullopt;
  std::memcpy(&found, bytes->data(), sizeof found);
  Memory asked = found;
  asked.accelerator = question.accelerator;
  std::memcpy(asked.why, question.why, sizeof asked.why);
  if (std::memcmp(&asked, &question, sizeof asked) != 0) return std::nullopt;
  found.why[sizeof found.why - 1] = '\0';
  return found;
}

Result<void> boot_one(const TestParts& parts, Leases& leases, Millis bound) {
  StartSpec spec;
  spec.sandbox = kSandbox;
  spec.limits = {kTestMemory, 1000, kTestProcesses, 1024, parts.disk_bytes};
  TRY(leases.disk, parts.disks.lease_closed(kSandbox, parts.disk_bytes));
  Overhead overhead = parts.driver.overhead();
  TRY(leases.cgroup, parts.cgroups.create(kSandbox, {kTestMemory + overhead.memory_bytes, 1000,
                                                     kTestProcesses + overhead.processes}));
  // The guest daemon is no part of a template, so any image will do for one.
  TRY(Fd lower, sys::open_file(parts.image, O_RDONLY));
  StepTimes times{};
  TRY(Started started, parts.driver.start_on(lower.get(), bound, spec, leases, times));
  return parts.driver.stop({kSandbox, started.pid, started.pidfd.get()});
}

Result<void> try_boot(const TestParts& parts, Millis bound) {
  Leases leases;
  TRY(leases.slot, parts.slots.lease(kSlotBound));
  std::uint32_t number = leases.slot.number;
  Result<void> result = boot_one(parts, leases, bound);
  leases = {};
  Result<void> removed = parts.cgroups.remove(kSandbox, kStopBound);
  parts.disks.remove(kSandbox);
  parts.slots.release(number);
  if (result.ok() && !removed.ok()) return removed;
  return result;
}

Result<Accelerator> find_accelerator(const TestParts& parts, std::uint32_t tsc_khz) {
  Result<Fd> kvm = sys::open_file("/dev/kvm", O_RDWR);
  Result<void> works = kvm.ok() ? success() : Result<void>(std::move(kvm).error());
  if (works.ok()) {
    parts.driver.use(Accelerator::kKvm, tsc_khz);
    works = try_boot(parts, kKvmBound);
  }
  if (works.ok()) return Accelerator::kKvm;
  std::string why = works.error().message();
  if (!parts.emulation) {
    return make_error(Code::kUnsupported, "KVM does not work on this host ({}), and emulation is not allowed",
                      why);
  }
  log::info("KVM does not work, emulation is used", {{"why", why}});
  parts.driver.use(Accelerator::kEmulation, tsc_khz);
  Result<void> emulated = try_boot(parts, kBootBound);
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

Result<Accelerator> choose_accelerator(const TestParts& parts) {
  TRY(Memory memory, question(parts));
  std::uint32_t tsc_khz = measure_tsc_khz();
  if (std::optional<Memory> known = recall(parts.memory, memory)) {
    if (known->accelerator == Accelerator::kNone) return make_error(Code::kUnsupported, "{}", known->why);
    parts.driver.use(known->accelerator, tsc_khz);
    return known->accelerator;
  }
  Result<Accelerator> found = find_accelerator(parts, tsc_khz);
  // A guest that was too slow this once may do better the next time.
  if (!found.ok() && parts.emulation) return std::move(found).error();
  memory.accelerator = found.ok() ? *found : Accelerator::kNone;
  if (!found.ok()) std::strncpy(memory.why, found.error().message().c_str(), sizeof memory.why - 1);
  Result<void> kept =
      sys::replace_file(parts.memory, {reinterpret_cast<const char*>(&memory), sizeof memory}, 0600);
  if (!kept.ok()) log::warn("the self-test will be repeated", {{"error", kept.error().message()}});
  return found;
}

}  // namespace atl::runner::microvm
