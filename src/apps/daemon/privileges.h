// SPDX-License-Identifier: Apache-2.0
//
// How the unprivileged daemons give up what they do not need. Once, at start, in this order.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sys/fd.h"
#include "sys/landlock.h"

namespace atl::daemons {

// Makes the directory, for its owner alone (0700), and gives it to the user; it stays ours when not root.
Result<void> own_directory(const std::string& path, const std::string& user);
// Gives a socket file to the user's group, so that its programs may connect (0660).
Result<void> share_socket(const std::string& path, const std::string& user);
// Becomes the user, with its groups; nothing when not root. From then on no_new_privs is set and nobody may
// trace it.
Result<void> become_user(const std::string& user);
// An exclusive lock on the directory, for the life of the descriptor. kConflict when another daemon has it.
Result<sys::Fd> lock_directory(const std::string& directory, const std::string& program);
// Files only at and below these paths, and what the C library wants to read. Where the kernel has no
// Landlock, a warning. Before threads are started.
Result<void> confine_files(std::vector<sys::LandlockPath> paths);
// System calls: an allow list, for all threads.
Result<void> confine_calls();

}  // namespace atl::daemons
