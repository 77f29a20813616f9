// SPDX-License-Identifier: Apache-2.0
//
// Processes by pidfd: the number of a process may be reused, its descriptor never is.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/clock.h"
#include "base/result.h"
#include "sys/fd.h"

namespace atl::sys {

Result<Fd> open_pidfd(pid_t pid);
// Start time in clock ticks since boot (/proc/<pid>/stat field 22). Together with the pid it names a process
// for ever.
Result<std::uint64_t> start_ticks(pid_t pid);
// A thread of the kernel, which no signal reaches; false when there is no such process.
bool is_kernel_thread(pid_t pid);
// The pidfd of the process that had this pid and start time; kNotFound when that one is gone.
Result<Fd> open_same_process(pid_t pid, std::uint64_t ticks);
// A process that is gone already counts as signalled.
Result<void> signal_process(int pidfd, int signal);
// True when the process has ended (also as a zombie) within `timeout`.
bool wait_for_end(int pidfd, Millis timeout);

}  // namespace atl::sys
