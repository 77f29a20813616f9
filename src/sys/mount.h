// SPDX-License-Identifier: Apache-2.0
//
// The descriptor-based mount API (fsopen(2), fsmount(2), open_tree(2), move_mount(2), mount_setattr(2);
// Linux 5.12). A mount made here is detached: it has no path, nobody else sees it, and it goes away with its
// last descriptor.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sys/fd.h"

namespace atl::sys {

// Names of mount attributes (linux/mount.h), so that callers need not include kernel headers.
enum MountFlag : unsigned {
  kReadOnly = 1,
  kNoSuid = 2,
  kNoDev = 4,
  kNoExec = 8,
};

struct MountOption {
  std::string key;
  std::string value;  // empty: a flag
};

// Mounts a new file system, detached.
Result<Fd> mount_new(const std::string& type, const std::vector<MountOption>& options, unsigned flags);
// A detached copy of the mount that `path` (below `directory`) lies on, rooted at `path`.
// KERNEL: the source must be attached in this process's mount namespace (before Linux 6.15).
Result<Fd> clone_mount(int directory, const std::string& path);
// Shifts owners: ids of the file system appear as `userns` maps them. Only on a mount that was never
// attached.
Result<void> idmap_mount(int mount, int userns);
Result<void> restrict_mount(int mount, unsigned flags);
// Attaches a detached mount at an existing path.
Result<void> attach_mount(int mount, const std::string& path);
Result<void> unmount_lazily(const std::string& path);
// Leaves the mount namespace of the host for a private copy, in which nothing done is seen outside.
Result<void> enter_private_mount_namespace();

}  // namespace atl::sys
