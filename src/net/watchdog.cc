// SPDX-License-Identifier: Apache-2.0
#include "net/watchdog.h"

#include <algorithm>

namespace atl::net {

void Watchdog::begin(Side side, Steady::duration limit) {
  if (limit <= Steady::duration::zero()) return end(side);
  deadline(side) = Steady::now() + limit;
  if (deadline(side) < armed_) arm(deadline(side));
}

void Watchdog::disarm() {
  end(Side::kRead);
  end(Side::kWrite);
  armed_ = kNever;
  timer_.cancel();
}

void Watchdog::stop() {
  expired_ = nullptr;
  timer_.cancel();
}

void Watchdog::arm(Steady::time_point at) {
  armed_ = at;
  timer_.expires_at(at);
  // The handler may already be queued when the connection goes away, so it must not hold a plain pointer.
  timer_.async_wait([self = weak_from_this(), at](const boost::system::error_code& error) {
    auto watchdog = self.lock();
    if (!error && watchdog && watchdog->armed_ == at) watchdog->fired();
  });
}

void Watchdog::fired() {
  armed_ = kNever;
  if ((late(Side::kRead) || late(Side::kWrite)) && expired_) expired_();
  // A late side stays late until its operation has seen it; only sides that still have time are waited for.
  auto next = kNever;
  auto now = Steady::now();
  for (auto at : deadlines_) {
    if (at > now) next = std::min(next, at);
  }
  if (next != kNever && expired_) arm(next);
}

}  // namespace atl::net
