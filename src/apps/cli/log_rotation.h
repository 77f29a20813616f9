// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace atl::cli {

inline constexpr std::uint64_t kLogBytes = 16 * kMiB;  // a log is rotated beyond this
inline constexpr unsigned kOldLogs = 3;                // path.1 (newest) to path.3

// When `path` is larger than `limit`: moves older copies on, copies it to path.1 and empties it. Its writers
// keep their descriptor, which must be in append mode. Lines written between copy and emptying are lost; a
// crash loses nothing else.
Result<void> rotate_log(const std::string& path, std::uint64_t limit = kLogBytes);

// The last `lines` lines of a file, at most 64 KiB; empty when there is none.
std::string tail_of(const std::string& path, std::size_t lines);

}  // namespace atl::cli
