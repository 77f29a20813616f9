// SPDX-License-Identifier: Apache-2.0
//
// What a sandbox of the gvisor tier does between its birth and runsc, and for as long as it lives: PID 1 of
// the sandbox's namespaces on the host, parent of runsc's processes. Its end is the end of all of them.
#pragma once

#include "runner/child_steps.h"

namespace atl::runner::gvisor {

// Numbers at which the guest daemon finds its descriptors.
inline constexpr int kGuestBootFd = 3;
inline constexpr int kGuestReadyFd = 4;

// Runs in the fresh child. Allocates nothing and takes no lock.
[[noreturn]] void run_child(const ChildPlan& plan);

}  // namespace atl::runner::gvisor
