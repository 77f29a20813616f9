// SPDX-License-Identifier: Apache-2.0
//
// Control groups of sandboxes, on version 1, hybrid and version 2 hosts (cgroups(7)).
//
// Each sandbox has one group `<parent>/<name>` in every hierarchy in use. On hybrid hosts the limits are in
// the version 1 hierarchies and the lifecycle (kill, freeze, populated, CLONE_INTO_CGROUP) in the unified
// tree. A group is named, not held: after a restart the same calls work on groups that an earlier process
// made.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "sys/fd.h"

namespace atl::sys {

enum class CgroupMode : std::uint8_t { kVersion1 = 1, kHybrid = 2, kVersion2 = 3 };

struct CgroupLimits {
  std::uint64_t memory_bytes;
  std::uint32_t cpu_millis;
  std::uint32_t processes;
};

struct CgroupUsage {
  std::uint64_t cpu_us = 0;
  std::uint64_t memory_used = 0;  // without reclaimable cache
  std::uint64_t memory_cache = 0;
  std::uint64_t memory_limit = 0;
  std::uint32_t processes = 0;
  std::uint32_t oom_kills = 0;
};

// What a launch needs of a fresh group.
struct CgroupHandles {
  Fd unified;             // directory for CLONE_INTO_CGROUP; none on version 1
  std::vector<Fd> tasks;  // version 1: the child writes "0" into each before anything else. KERNEL: a parent
                          // that writes the pid to cgroup.procs waits about 10 ms for an RCU grace period; a
                          // task that moves itself does not.
  // Read-only views for the guest daemon.
  Fd memory_events, memory_usage, memory_stat, cpu_usage;
};

// Where one hierarchy is mounted. `controllers` is empty for a unified tree that is used for lifecycle only.
struct Hierarchy {
  std::string root;
  std::vector<std::string> controllers;
  bool unified = false;
  std::uint32_t depth = 0;  // of `root` below the root of the hierarchy
};

class Cgroups {
 public:
  // Finds the hierarchies of this host and makes the parent group in each. Fails when a limit cannot be
  // enforced.
  static Result<Cgroups> open(const std::string& parent);
  // For tests: uses these hierarchies as they are.
  Cgroups(CgroupMode mode, std::vector<Hierarchy> hierarchies, std::string parent);

  CgroupMode mode() const { return mode_; }
  bool has_kill() const { return has_kill_; }      // cgroup.kill, Linux 5.14
  bool has_freeze() const { return has_freeze_; }  // cgroup.freeze, Linux 5.2, in a unified tree

  Result<CgroupHandles> create(const std::string& name, const CgroupLimits& limits) const;
  // SIGKILL to every member: at once where the kernel has cgroup.kill, else one by one.
  void kill(const std::string& name) const;
  // Stops every member where it stands, those that come later too, or lets them go on; kDeadline when the
  // kernel does not confirm it within `timeout`, and then it is still being tried. A frozen member can be
  // killed.
  Result<void> freeze(const std::string& name, Millis timeout) const;
  Result<void> thaw(const std::string& name, Millis timeout) const;
  // Takes threads of the kernel out of the group, which would never stand still with it (KVM makes one for
  // each machine).
  void release_kernel_threads(const std::string& name) const;
  // Takes up to `bytes` of the group's memory out of RAM, to swap where it is of no file, and says how much
  // went; 0 where no more goes. Blocks while it is written. For groups whose members stand still: until
  // end_reclaim() their limits are others, so that a member that runs might be killed for want of memory.
  Result<std::uint64_t> reclaim(const std::string& name, std::uint64_t bytes) const;
  // Makes the limits whole again, also those that an earlier process left; always right.
  Result<void> end_reclaim(const std::string& name) const;
  bool has_reclaim() const;  // version 1 with accounting of swap, or version 2 of Linux 5.19
  // True when no process is left in any hierarchy within `timeout`.
  bool wait_empty(const std::string& name, Millis timeout) const;
  // A group below that of `name`, in the unified tree, that limits nothing of its own: `owner`, when it has a
  // descriptor that leads there, may move what is in the group of `name` to it and back. kUnsupported without
  // a unified tree.
  Result<void> create_part(const std::string& name, const std::string& part, std::uint32_t owner) const;
  // How rules about sockets name such a group.
  struct Place {
    std::string path;         // nft_group()
    std::uint32_t level = 0;  // below the root of the hierarchy
  };
  Result<Place> place_of(const std::string& name, const std::string& part) const;
  // Removes the group everywhere, with its parts. A missing group is fine; one that is in use for longer than
  // `timeout` is kConflict.
  Result<void> remove(const std::string& name, Millis timeout) const;
  // CPU time of all members since the group was made; nullopt when there is no such group. One small file.
  std::optional<std::uint64_t> cpu_us(const std::string& name) const;
  CgroupUsage usage(const std::string& name) const;  // zeros where the kernel does not say
  std::uint32_t oom_kills(const std::string& name) const;
  // Names of the groups below the parent, in any hierarchy.
  std::vector<std::string> list() const;
  // Removes the parent where it is empty.
  void remove_parent() const;

 private:
  std::string path(const Hierarchy& hierarchy, const std::string& name) const;
  const Hierarchy* with(const std::string& controller) const;
  const Hierarchy* unified_tree() const;
  std::string file(const std::string& controller, const std::string& name, const std::string& v1,
                   const std::string& v2) const;
  std::string cpu_usage_file(const std::string& name) const;
  Result<void> set_limits(const std::string& name, const CgroupLimits& limits) const;
  bool empty(const std::string& name) const;
  Result<void> set_frozen(const std::string& name, bool frozen, Millis timeout) const;

  CgroupMode mode_;
  std::vector<Hierarchy> hierarchies_;
  std::string parent_;
  bool has_kill_ = false;
  bool has_freeze_ = false;
};

// The hierarchies that a mount table (text of /proc/self/mountinfo) shows; what Cgroups::open starts from.
std::vector<Hierarchy> find_hierarchies(const std::string& mountinfo);

// What nft's language calls the group at this absolute path.
std::string nft_group(const std::string& path);

}  // namespace atl::sys
