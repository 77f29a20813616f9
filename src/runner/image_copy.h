// SPDX-License-Identifier: Apache-2.0
//
// Copies of disk images, and how they are found to be whole.
#pragma once

#include <atomic>
#include <string>

#include "base/clock.h"
#include "base/digest.h"
#include "base/result.h"

namespace atl::runner {

// When a copy gives up: at a time, or when somebody else wants the source.
struct CopyBounds {
  Steady::time_point until = Steady::time_point::max();
  const std::atomic<bool>* abandon = nullptr;
  bool keep_reserve = false;  // refuse a copy that would take the last room of the host
};

// Copies a sparse file into an empty one: by reflink where the file system can, else its data and not its
// holes. kNoSpace when it does not fit; what lies in `target` then is of no use.
Result<void> copy_sparse(int source, int target, const CopyBounds& bounds = {});
// The same for a new file `to`, which is not there after a failure.
Result<void> copy_sparse_file(const std::string& from, const std::string& to);

// Digest of the content: two files are the same when their data is, wherever their holes are.
Result<Digest::Value> digest_image(int image);
// Bytes that the file takes on its file system.
Result<std::uint64_t> stored_bytes(int image);

// Repairs what a copy of a mounted ext4 cannot have: files that were deleted and still open. kCorrupt when
// the image is not a whole file system. Starts e2fsck(8).
Result<void> settle_image(const std::string& path);

}  // namespace atl::runner
