// SPDX-License-Identifier: Apache-2.0
//
// Work inside the network namespace of a slot.
#pragma once

#include "base/result.h"
#include "sys/netlink/netlink.h"

namespace atl::runner {

// The calling thread may go to other network namespaces while this lives; then it returns to `home`.
class NetnsVisit {
 public:
  explicit NetnsVisit(int home) : home_(home) {}
  ~NetnsVisit();
  NetnsVisit(const NetnsVisit&) = delete;

 private:
  int home_;
};

// Addresses and routes of a sandbox, on links lo and eth0 of the namespace that `inside` speaks to.
Result<void> configure_inside(sys::Netlink& inside);

}  // namespace atl::runner
