// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace atl::http {

// A token bucket: `burst` events at once, then `per_second`. For things that a well-behaved peer does rarely.
class Budget {
 public:
  Budget(double burst, double per_second) : burst_(burst), rate_(per_second), tokens_(burst) {}

  // False when the peer has used up what it may.
  bool take(Steady::time_point now) {
    if (last_ != Steady::time_point()) {
      tokens_ = std::min(burst_, tokens_ + std::chrono::duration<double>(now - last_).count() * rate_);
    }
    last_ = now;
    tokens_ -= 1;
    return tokens_ >= 0;
  }

 private:
  double burst_;
  double rate_;
  double tokens_;
  Steady::time_point last_;
};

}  // namespace atl::http
