// SPDX-License-Identifier: Apache-2.0
//
// Landlock (landlock(7)): a process gives up rights for itself and all its descendants.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sys/fd.h"

namespace atl::sys {

// 0 when this kernel has none. Found by asking the kernel, since securityfs need not be mounted.
int landlock_abi();

// A ruleset for sandboxes: everything stays allowed but making device nodes, and (as with any file system
// ruleset) changing mounts. Where the kernel can (ABI 6), abstract unix sockets and signals end at the
// sandbox's border. Apply with landlock_restrict_self(2).
Result<Fd> landlock_sandbox_ruleset();

// For daemons: file access only below these paths, for the calling thread and the threads it starts later.
struct LandlockPath {
  std::string path;
  bool writable;
};
Result<void> landlock_restrict_files(const std::vector<LandlockPath>& paths);

}  // namespace atl::sys
