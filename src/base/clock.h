// SPDX-License-Identifier: Apache-2.0
//
// Time. Wall-clock times are UTC and are stored as integer milliseconds; durations are monotonic.
// Code takes a Clock& so that tests can drive it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace atl {

using Millis = std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

// Milliseconds since 1970-01-01T00:00:00Z. Never negative in stored data.
struct WallTime {
  std::int64_t ms = 0;
  auto operator<=>(const WallTime&) const = default;
  WallTime operator+(Millis d) const { return {ms + d.count()}; }
  WallTime operator-(Millis d) const { return {ms - d.count()}; }
  Millis operator-(WallTime other) const { return Millis(ms - other.ms); }
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual WallTime now() const = 0;
  virtual Steady::time_point steady_now() const = 0;
};

// The real clock. Stateless; one per process.
Clock& system_clock();

// A clock that stands still until a test moves it.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(WallTime start = {1'700'000'000'000}) : wall_(start) {}
  WallTime now() const override { return wall_; }
  Steady::time_point steady_now() const override { return steady_; }
  void advance(Millis d) {
    wall_ = wall_ + d;
    steady_ += d;
  }
  void step_wall(Millis d) { wall_ = wall_ + d; }  // only the wall clock jumps

 private:
  WallTime wall_;
  Steady::time_point steady_{std::chrono::hours(1)};
};

// RFC 3339 in UTC with milliseconds: "2026-01-02T03:04:05.678Z".
std::string format_rfc3339(WallTime time);
// Accepts an offset or Z and up to nine fraction digits; nullopt when malformed or before 1970.
std::optional<WallTime> parse_rfc3339(std::string_view text);

}  // namespace atl
