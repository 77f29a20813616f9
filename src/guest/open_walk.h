// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "sys/fd.h"

namespace atl::guest {

// What openat2(2) with RESOLVE_NO_MAGICLINKS does, for kernels that do not have it (gVisor): one component at
// a time, each opened with O_NOFOLLOW below the descriptor of the one before. Of `resolve` it knows
// RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS.
Result<sys::Fd> open_by_walk(int directory, const std::string& path, int flags, mode_t mode,
                             std::uint64_t resolve);

}  // namespace atl::guest
