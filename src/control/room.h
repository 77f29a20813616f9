// SPDX-License-Identifier: Apache-2.0
//
// Room: whether the machine itself can take one more sandbox now. Quota counts what was promised; this looks
// at what is left. So promises may be many (most sandboxes idle), and still nobody drives the host into the
// ground.
#pragma once

#include <functional>

#include "base/clock.h"
#include "sys/host.h"

namespace atl::control {

using MeasureHost = std::function<sys::HostFacts()>;

// Belongs to the control loop.
class Room {
 public:
  // Without `measure` there is always room.
  Room(MeasureHost measure, const Clock& clock) : measure_(std::move(measure)), clock_(clock) {}
  // kUnavailable with the word `capacity` when there is not, saying of what. `under_way` are starts that the
  // measurement cannot show yet.
  Result<void> check(std::size_t under_way);
  const sys::HostFacts& facts() const { return facts_; }  // as last measured

 private:
  MeasureHost measure_;
  const Clock& clock_;
  sys::HostFacts facts_;
  Steady::time_point measured_at_ = Steady::time_point::min();
};

}  // namespace atl::control
