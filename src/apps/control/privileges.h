// SPDX-License-Identifier: Apache-2.0
//
// How atoll-control gives up what it does not need. Once, at start, in this order.
#pragma once

#include "apps/control/options.h"
#include "sys/fd.h"

namespace atl::control_app {

// Makes <data>/control (0700) and gives it to the user. The runner's and the builder's directories are left
// alone.
Result<void> prepare_directories(const Options& options);
// Becomes the user, with its groups; nothing when not root. From then on no_new_privs is set and nobody may
// trace it.
Result<void> become_user(const std::string& user);
// An exclusive lock on the data directory, for the life of the descriptor. kConflict when another daemon has
// it.
Result<sys::Fd> lock_data_dir(const std::string& control_dir);
// Files only below the data directory. Where the kernel has no Landlock, a warning. Before threads are
// started.
Result<void> confine_files(const Options& options);
// System calls: an allow list, for all threads.
Result<void> confine_calls();

}  // namespace atl::control_app
