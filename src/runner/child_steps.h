// SPDX-License-Identifier: Apache-2.0
//
// Between the birth of a sandbox and its first program: the steps that tiers share. They run in a fresh child
// of the launcher: nothing here allocates or takes a lock, and every failure ends the child with a
// ChildReport.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <span>

#include "runner/launch.h"
#include "runner/launcher.h"

namespace atl::runner {

// What the launcher hands to the child.
struct ChildPlan {
  const LaunchOrder& order;
  const PassedFds& fds;
  int release_read;   // one byte comes when the id maps are written; end of file: the launcher is dead
  int release_write;  // the copy that must be closed for that
  const sock_fprog* filter;
  int landlock_abi;
  std::span<char> title;  // where the kernel finds the command line of this process
};

// Base of what a tier does in its child.
class ChildSteps {
 protected:
  explicit ChildSteps(const ChildPlan& plan) : plan_(plan), fds_(plan.fds) {}

  [[noreturn]] void fail(const char* what, std::uint32_t line = __builtin_LINE());
  void check(long result, const char* what, std::uint32_t line = __builtin_LINE());
  int fd(Passed which) const { return fds_[static_cast<std::size_t>(which)]; }
  void report(int error, const char* what, std::uint32_t line);

  void join_cgroups();
  // Moves what was passed up to the numbers from `first` on and closes everything else.
  void keep_passed(int first);
  void drop_capabilities();
  void wait_for_maps();
  void become_root();
  // Mounts template and disk over each other at `target`, and opens it as root_.
  void mount_overlay(const char* target);

  int open_in(int directory, const char* path, int flags, const char* what);
  void attach(int mount, int directory, const char* path);
  void mount(const char* source, const char* target, const char* type, unsigned long flags,
             const char* options);
  void bind_kit(const char* from, const char* path);

  const ChildPlan& plan_;
  PassedFds fds_;
  ChildReport report_{};
  int root_ = -1;  // the sandbox's root directory
};

std::uint64_t now_ns();  // CLOCK_MONOTONIC

}  // namespace atl::runner
