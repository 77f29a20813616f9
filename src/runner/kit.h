// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/result.h"
#include "sys/fd.h"

namespace atl::runner {

// The kit of a slot: one detached tmpfs, owned by the slot's root, that holds what a sandbox mounts
// read-only:
//   dev/    device nodes null zero full random urandom tty, links, and directories for pts, shm
//   sys/    the few files that programs look for in /sys (the real one cannot be mounted without owning the
//   network) empty/  an empty directory and null    an empty file, to hide things behind
Result<sys::Fd> build_kit(std::uint32_t owner);

}  // namespace atl::runner
