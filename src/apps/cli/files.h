// SPDX-License-Identifier: Apache-2.0
//
// Small local files: configuration, credentials, state of the supervisor.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace atl::cli {

// The whole file, at most `limit` bytes (kTooLarge beyond). kNotFound when there is none.
Result<std::string> read_file(const std::string& path, std::size_t limit);
// Writes a new file beside `path` and renames it, so that a reader sees the old or the new content, never a part.
Result<void> replace_file(const std::string& path, std::string_view content, mode_t mode);
// The same as user `uid`/`gid`, in a child that has dropped root: the user may have put links into their own directory,
// and root must not follow them. Makes the parent directories (0700).
Result<void> replace_file_as(uid_t uid, gid_t gid, const std::string& path, std::string_view content, mode_t mode);
// Makes `path` and its parents with `mode`; an existing directory is fine.
Result<void> make_directories(const std::string& path, mode_t mode);

}  // namespace atl::cli
