// SPDX-License-Identifier: Apache-2.0
//
// What a sandbox of the container tier does between its birth and the guest daemon.
#pragma once

#include "runner/child_steps.h"

namespace atl::runner::container {

// Numbers at which the guest daemon finds its descriptors; what it is told in GuestBoot.
inline constexpr int kGuestBootFd = 3;
inline constexpr int kGuestListenFd = 4;
inline constexpr int kGuestMemoryEventsFd = 5;
inline constexpr int kGuestMemoryUsageFd = 6;
inline constexpr int kGuestMemoryStatFd = 7;
inline constexpr int kGuestCpuUsageFd = 8;
inline constexpr int kGuestCgroupFd = 9;  // where there is a unified tree

// Runs in the fresh child. Allocates nothing and takes no lock. Ends in exec or, after a ChildReport, in
// _exit.
[[noreturn]] void run_child(const ChildPlan& plan);

}  // namespace atl::runner::container
