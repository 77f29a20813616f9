// SPDX-License-Identifier: Apache-2.0
#include "control/room.h"

#include <algorithm>

#include "base/units.h"

namespace atl::control {
namespace {

constexpr Steady::duration kFresh = std::chrono::milliseconds(100);
// What is kept back for the host: a twentieth, but no more than this.
constexpr std::uint64_t kShare = 20;
constexpr std::uint64_t kMostMemoryKept = 512 * kMiB;
constexpr std::uint64_t kMostDiskKept = 2 * kGiB;
constexpr std::uint64_t kMostProcessesKept = 1024;
constexpr unsigned kMostPressure = 40;  // percent; beyond it the host hardly does anything else
// What a start takes at once, generously.
constexpr std::uint64_t kMemoryOfStart = 8 * kMiB;
constexpr std::uint64_t kDiskOfStart = 4 * kMiB;
constexpr std::uint64_t kProcessesOfStart = 8;

Error full(std::string what) {
  return Error(Code::kUnavailable, std::move(what))
      .with_word("capacity")
      .with_hint("try again when sandboxes have ended; 'atoll top' shows what uses this host");
}

bool enough(std::uint64_t total, std::uint64_t free, std::uint64_t most_kept, std::uint64_t taken) {
  return total == 0 || free >= std::min(total / kShare, most_kept) + taken;
}

}  // namespace

Result<void> Room::check(std::size_t under_way) {
  if (!measure_) return success();
  if (auto now = clock_.steady_now(); measured_at_ + kFresh < now) {
    facts_ = measure_();
    measured_at_ = now;
  }
  std::uint64_t starts = under_way + 1;
  if (!enough(facts_.memory_total, facts_.memory_free, kMostMemoryKept, starts * kMemoryOfStart)) {
    return full(fmt::format("this host has only {} of {} MiB of memory left", facts_.memory_free / kMiB,
                            facts_.memory_total / kMiB));
  }
  if (!enough(facts_.disk_total, facts_.disk_free, kMostDiskKept, starts * kDiskOfStart)) {
    return full(fmt::format("the disk of the data directory has only {} of {} MiB left",
                            facts_.disk_free / kMiB, facts_.disk_total / kMiB));
  }
  std::uint64_t more = facts_.processes_max > facts_.processes ? facts_.processes_max - facts_.processes : 0;
  if (!enough(facts_.processes_max, more, kMostProcessesKept, starts * kProcessesOfStart)) {
    return full(
        fmt::format("this host runs {} of at most {} processes", facts_.processes, facts_.processes_max));
  }
  if (facts_.memory_pressure > kMostPressure) {
    return full(
        fmt::format("this host waited for memory during {} % of the last 10 s", facts_.memory_pressure));
  }
  return success();
}

}  // namespace atl::control
