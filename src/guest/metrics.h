// SPDX-License-Identifier: Apache-2.0
//
// GET /metrics: what the sandbox uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "model/guest_boot.h"

namespace atl::guest {

// Nanoseconds of CPU time: a bare number (cpuacct.usage) or the line "usage_usec N" (cpu.stat).
std::optional<std::uint64_t> parse_cpu_usage(std::string_view text);
// Bytes of page cache: "total_cache N", "cache N" (version 1) or "file N" (version 2).
std::uint64_t parse_memory_cache(std::string_view text);

// Reads the counters that the runner handed over, or the machine's own where there are none.
class Metrics {
 public:
  explicit Metrics(const model::GuestBoot& boot);
  // The JSON of the answer. CPU use is measured since the previous call, but over at least kMinInterval.
  std::string read();

 private:
  static constexpr auto kMinInterval = std::chrono::milliseconds(100);
  double cpu_percent();
  std::uint64_t cpu_usage() const;

  model::GuestBoot boot_;
  Steady::time_point measured_at_;
  std::uint64_t measured_ = 0;
  double percent_ = 0;
};

}  // namespace atl::guest
