// SPDX-License-Identifier: Apache-2.0
//
// A visit: what runsc does for a sandbox that runs. It is carried out by a child of the launcher that enters
// the sandbox's namespaces on the host and drops all rights before runsc starts, since runsc reads what the
// guest's kernel answers.
#pragma once

#include <cerrno>

#include "runner/child_steps.h"

namespace atl::runner::gvisor {

enum class Command : std::uint32_t {
  // The guest's kernel runs no process from here on; a first report says so. After one byte from Passed::kGo
  // it
  // writes its memory to kWrittenMemory, and a second report says so. Without that byte, and when a step
  // fails, it goes on.
  kSave = 1,
  kGoOn = 2,  // processes run again, and what kSave has written is removed
};

// What kSave reports when memory cannot be in files: an errno that stands for a reason.
inline constexpr int kNoRoom = ENOSPC;        // the disk is too full
inline constexpr int kNamelessFile = ESTALE;  // a file or directory in use has no name any more

// Runs in a fresh child of the launcher. Allocates nothing and takes no lock.
[[noreturn]] void run_visit(const ChildPlan& plan);

}  // namespace atl::runner::gvisor
