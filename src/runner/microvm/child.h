// SPDX-License-Identifier: Apache-2.0
//
// What a sandbox of the microvm tier does between its birth and QEMU, which takes its place: PID 1 of the
// sandbox's namespaces on the host.
#pragma once

#include "runner/child_steps.h"

namespace atl::runner::microvm {

// The user in the sandbox's own range that QEMU runs as: not the one that owns the namespaces.
inline constexpr std::uint32_t kMachineUser = 1;
// The one that reads what QEMU says.
inline constexpr std::uint32_t kMonitorUser = 2;

// How much memory a machine has whose sandbox may use `limit`.
std::uint64_t machine_bytes(std::uint64_t limit);

// Runs in the fresh child. Allocates nothing and takes no lock. Ends in exec or, after a ChildReport, in
// _exit.
[[noreturn]] void run_child(const ChildPlan& plan);
// The same for atoll-qmp, which is in the machine image too.
[[noreturn]] void run_monitor(const ChildPlan& plan);

}  // namespace atl::runner::microvm
