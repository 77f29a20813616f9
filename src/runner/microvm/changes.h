// SPDX-License-Identifier: Apache-2.0
//
// A machine that was started from stored memory changes little of it. What it stores again is those pages,
// beside another name of the file that it was started from (docs/decisions/0097-changed-pages.md).
#pragma once

#include <cstdint>

#include "base/result.h"

namespace atl::runner::microvm {

// Where in a file of QEMU's the guest's memory lies, and the bits that name the pages which a start reads
// from there.
struct MemoryPlace {
  std::uint64_t bitmap_offset = 0;
  std::uint64_t pages_offset = 0;
  std::uint64_t pages_bytes = 0;
};

inline constexpr std::uint64_t kPageBytes = 4096;
// A start reads all changed pages, and shares them with nobody; where there are more it maps them all.
inline constexpr std::uint64_t kMostChangedBytes = 64ull << 20;

// Copies what lies in `whole` into the empty file `out`, but of the guest's memory only those pages that are
// not as in `base`, where they begin at `base_offset`; the bits in `out` name these. False, and `out` is of
// no use, where they are more than `most` bytes.
Result<bool> store_changes(int whole, const MemoryPlace& place, int base, std::uint64_t base_offset, int out,
                           std::uint64_t most = kMostChangedBytes);

}  // namespace atl::runner::microvm
