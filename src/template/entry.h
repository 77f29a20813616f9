// SPDX-License-Identifier: Apache-2.0
//
// One entry of a root file system on its way into a template, whatever it came from, and the rules for its
// name. Pure functions of bytes: no file is touched here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace atl::templates {

// Bounds on what a template may hold. A build that passes one of them is refused, not cut off.
struct TreeLimits {
  std::uint64_t entries = 1'000'000;
  std::uint64_t bytes = 16ull << 30;         // sum of the sizes of all files
  std::uint64_t stream_bytes = 20ull << 30;  // of the unpacked archive, headers included
};
inline constexpr std::size_t kMaxPathBytes = 4095;  // PATH_MAX without its NUL (limits.h)
inline constexpr std::size_t kMaxNameBytes = 255;   // NAME_MAX
inline constexpr std::size_t kMaxDepth = 128;
inline constexpr std::uint32_t kUidCount = 65536;  // owner ids inside a sandbox are below this

// What an entry is in its source.
enum class EntryKind : std::uint8_t { kDirectory, kFile, kSymlink, kHardlink, kDevice, kFifo, kSocket };

// A value; nothing in it has been checked but what judge() and clean_path() say.
struct Entry {
  EntryKind kind = EntryKind::kFile;
  std::string path;    // as clean_path() returned it; empty for the root itself
  std::string target;  // kSymlink: any text; kHardlink: a clean path
  std::uint32_t mode = 0;
  std::uint64_t uid = 0;
  std::uint64_t gid = 0;
  std::int64_t mtime_s = 0;
  std::uint64_t size = 0;
};

// The one accepted spelling of a path inside the tree: relative, no empty, "." or ".." part, no NUL, bounded
// length and depth. A leading "./" and a trailing "/" are dropped, since every tar writes them. Anything else
// is refused rather than repaired, so that no second reader can understand the path differently.
Result<std::string> clean_path(std::string_view raw);

// What to do with an entry whose path is clean.
enum class Verdict : std::uint8_t { kTake, kSkip };

// Refuses what must not be in a template: devices, FIFOs, sockets, owner ids outside the sandbox's range,
// layer markers, and links or files in place of the directories that the runner mounts on. kSkip: contents of
// /dev, /proc and /sys, which are covered by mounts and therefore never seen.
Result<Verdict> judge(const Entry& entry);

// "the entry 'x/y'" for error texts, with control characters replaced and long names cut.
std::string describe(std::string_view path);

}  // namespace atl::templates
