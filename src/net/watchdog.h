// SPDX-License-Identifier: Apache-2.0
//
// Watchdog: the time limits of one connection, one for reading and one for writing, with a single timer.
#pragma once

#include <functional>
#include <memory>

#include "async/task.h"

namespace atl::net {

// The timer is left alone while a deadline only moves into the future: it fires at the old time, sees that
// nothing is late and goes on to the new one. So an operation that keeps making progress costs no timer work.
class Watchdog : public std::enable_shared_from_this<Watchdog> {
 public:
  enum class Side : unsigned char { kRead, kWrite };

  // `expired` is called when a side is late; it must end the pending operation of that side.
  Watchdog(async::Executor executor, std::function<void()> expired)
      : timer_(std::move(executor)), expired_(std::move(expired)) {}

  // Starts or moves the deadline of `side`. A zero limit means none.
  void begin(Side side, Steady::duration limit);
  void end(Side side) { deadline(side) = kNever; }
  // True when the deadline of `side` has passed. Asking does not clear it; begin() and end() do.
  bool late(Side side) const { return deadlines_[static_cast<int>(side)] <= Steady::now(); }
  // Also takes the timer back, for a limit that will not be used again soon.
  void disarm();
  // No call of `expired` from here on.
  void stop();

 private:
  static constexpr Steady::time_point kNever = Steady::time_point::max();
  Steady::time_point& deadline(Side side) { return deadlines_[static_cast<int>(side)]; }
  void arm(Steady::time_point at);
  void fired();

  async::asio::steady_timer timer_;
  std::function<void()> expired_;
  Steady::time_point deadlines_[2] = {kNever, kNever};
  Steady::time_point armed_ = kNever;
};

}  // namespace atl::net
