// SPDX-License-Identifier: Apache-2.0
//
// Small files of the kernel (/proc, /sys, cgroups) and of our own. Blocking. Every error names the path.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sys/fd.h"

namespace atl::sys {

// open(2), openat(2) with O_CLOEXEC.
Result<Fd> open_file(const std::string& path, int flags, mode_t mode = 0);
Result<Fd> open_at(int directory, const std::string& path, int flags, mode_t mode = 0);
// openat2(2) that follows no symbolic link and never leaves `directory`. For trees that others have written.
Result<Fd> open_beneath(int directory, const std::string& path, int flags, mode_t mode = 0);

// The whole file, at most `limit` bytes; a longer file is an error (kTooLarge).
Result<std::string> read_file(const std::string& path, std::size_t limit = 64 * 1024);
// The same, of a file that must be a plain one, be no link, belong to this user or root, and be closed to all
// others; kDenied otherwise.
Result<std::string> read_private_file(const std::string& path, std::size_t limit = 64 * 1024);
// The same, where `owner` may have put something else in its place: it must be a plain file with one name,
// and belong to `owner` or root. Never waits, as it would at a FIFO.
Result<std::string> read_file_of(uid_t owner, const std::string& path, std::size_t limit = 64 * 1024);
Result<std::string> read_file_at(int directory, const std::string& path, std::size_t limit = 64 * 1024);
// Everything that is left in `fd`.
Result<std::string> read_all(int fd, std::size_t limit = 64 * 1024);

// One write(2) into an existing file, as control files of the kernel want it.
Result<void> write_file(const std::string& path, std::string_view text);
Result<void> write_file_at(int directory, const std::string& path, std::string_view text);
Result<void> write_all(int fd, std::string_view bytes);
// Makes or replaces a file atomically (temporary name, then rename). Not synced.
// With Durable::kYes also a crash of the machine afterwards leaves the new one.
enum class Durable : bool { kNo, kYes };
Result<void> replace_file(const std::string& path, std::string_view bytes, mode_t mode,
                          Durable durable = Durable::kNo);
// Writes out a file, or a folder's names (fsync(2)).
Result<void> sync_path(const std::string& path);

// mkdir(2); an existing directory is fine.
Result<void> ensure_directory(const std::string& path, mode_t mode);
// Names in a directory, without "." and "..". A missing directory is empty.
Result<std::vector<std::string>> list_directory(const std::string& path);

}  // namespace atl::sys
