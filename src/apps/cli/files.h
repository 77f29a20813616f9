// SPDX-License-Identifier: Apache-2.0
//
// Files that belong to the user who calls, written by root.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace atl::cli {

// Replaces a file as user `uid`/`gid`, in a child that has dropped root: the user may have put links into
// their own directory, and root must not follow them. Makes the parent directories (0700).
Result<void> replace_file_as(uid_t uid, gid_t gid, const std::string& path, std::string_view content,
                             mode_t mode);
// Makes `path` and its parents with `mode`; an existing directory is fine.
Result<void> make_directories(const std::string& path, mode_t mode);

}  // namespace atl::cli
