// SPDX-License-Identifier: Apache-2.0
//
// Reads a tar archive (plain, gzip, bzip2, xz or zstd) into a TreeWriter. Hostile bytes: run it in a confined
// child.
#pragma once

#include "base/result.h"
#include "template/tree_writer.h"

namespace atl::templates {

// Reads the whole archive from `fd`, which stays the caller's, from its present offset. Starts no program:
// only filters that libarchive carries itself are switched on. Any entry that the rules refuse, damage, and
// anything but zeros behind the end mark refuses the whole archive; the error names the entry.
Result<void> read_archive(int fd, TreeWriter& tree, const TreeLimits& limits);

}  // namespace atl::templates
