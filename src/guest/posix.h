// SPDX-License-Identifier: Apache-2.0
//
// System calls of the guest daemon with Result in place of errno. All of them block on the disk: use from a
// worker.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sys/fd.h"

namespace atl::guest {

using sys::Fd;

// openat2(2) with O_CLOEXEC, and never through a magic link of /proc. `resolve` adds RESOLVE_* flags.
Result<Fd> open_at(int directory, const std::string& path, int flags, mode_t mode = 0,
                   std::uint64_t resolve = 0);
// fstatat(2) with AT_SYMLINK_NOFOLLOW; an empty name means the descriptor itself.
Result<struct stat> stat_at(int directory, const std::string& name);
// Reads until `out` is full or the file ends. offset < 0: from the current position.
Result<std::size_t> read_full(int fd, std::span<char> out, std::int64_t offset = -1);
Result<void> write_full(int fd, std::string_view data);
Result<std::string> read_link(int directory, const std::string& name);
// A whole regular file of at most `limit` bytes. Refuses FIFOs, devices and sockets without blocking on them.
Result<std::string> read_small_file(const std::string& path, std::size_t limit);
// Creates or replaces a small file; for files of our own in directories of our own.
Result<void> write_small_file(const std::string& path, std::string_view content, mode_t mode);

}  // namespace atl::guest
