// SPDX-License-Identifier: Apache-2.0
#include "runner/child_steps.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace atl::runner {
namespace {
constexpr unsigned kKeyctlJoinSession = 1;  // keyctl(2), KEYCTL_JOIN_SESSION_KEYRING
}

// By the C library alone: children have no other (launcher_main.cc).
std::uint64_t now_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(t.tv_nsec);
}

void ChildSteps::report(int error, const char* what, std::uint32_t line) {
  report_.error = error;
  report_.line = line;
  std::strncpy(report_.what, what, sizeof report_.what - 1);
  if (::write(fd(Passed::kStatus), &report_, sizeof report_) != sizeof report_) ::_exit(126);
}

void ChildSteps::fail(const char* what, std::uint32_t line) {
  report(errno != 0 ? errno : EIO, what, line);
  ::_exit(127);
}

void ChildSteps::check(long result, const char* what, std::uint32_t line) {
  if (result < 0) fail(what, line);
}

// KERNEL: a task that writes "0" to `tasks` moves itself without the RCU wait of cgroup.procs (80 us for four
// hierarchies).
void ChildSteps::join_cgroups() {
  for (Passed which : {Passed::kTasks0, Passed::kTasks1, Passed::kTasks2, Passed::kTasks3}) {
    if (fd(which) >= 0 && ::write(fd(which), "0", 1) != 1) fail("join a cgroup");
  }
  // Only now: the root of a cgroup namespace is the group that its creator is in (cgroup_namespaces(7)).
  check(::unshare(CLONE_NEWCGROUP), "make a cgroup namespace");
}

// For children that never run another program: what the launcher has open would stay open there, so the
// runner would not see the end of its launcher, nor could a new one take the lock.
void ChildSteps::keep_passed(int first) {
  for (std::size_t i = 0; i < fds_.size(); ++i) {
    if (fds_[i] < 0) continue;
    int kept = first + static_cast<int>(i);
    check(::dup3(fds_[i], kept, O_CLOEXEC), "keep a descriptor");
    fds_[i] = kept;
  }
  check(::syscall(SYS_close_range, first + static_cast<int>(kPassedCount), ~0u, 0), "close descriptors");
  check(::syscall(SYS_close_range, 0, first - 1, 0), "close descriptors");
}

void ChildSteps::drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2]{};
  check(::syscall(SYS_capset, &header, none), "drop capabilities");
  check(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "give up privileges");
}

void ChildSteps::wait_for_maps() {
  ::close(plan_.release_write);
  char byte;
  if (::read(plan_.release_read, &byte, 1) != 1) ::_exit(125);
}

void ChildSteps::become_root() {
  check(::syscall(SYS_setgroups, 0, nullptr), "drop groups");
  check(::syscall(SYS_setresgid, 0, 0, 0), "become group 0 of the sandbox");
  check(::syscall(SYS_setresuid, 0, 0, 0), "become user 0 of the sandbox");
  ::setsid();
  // Without this all sandboxes would share the launcher's session keyring.
  check(::syscall(SYS_keyctl, kKeyctlJoinSession, nullptr), "join a session keyring");
  ::umask(0022);
}

int ChildSteps::open_in(int directory, const char* path, int flags, const char* what) {
  open_how how{};
  how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long opened = ::syscall(SYS_openat2, directory, path, &how, sizeof how);
  check(opened, what);
  return static_cast<int>(opened);
}

// A target on which something was mounted by whom we do not trust is opened without following links; names in
// our own trees (the private root, /proc, the kit) are what they are, and cost less by mount(2).
void ChildSteps::attach(int mount, int directory, const char* path) {
  int target = open_in(directory, path, O_PATH, path);
  check(::syscall(SYS_move_mount, mount, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH),
        path);
  ::close(target);
  ::close(mount);
}

void ChildSteps::mount(const char* source, const char* target, const char* type, unsigned long flags,
                       const char* options) {
  check(::syscall(SYS_mount, source, target, type, flags, options), target);
}

// A copy of a part of the kit on top of a directory of the root, as restricted as the kit is.
void ChildSteps::bind_kit(const char* from, const char* path) {
  long copy = ::syscall(SYS_open_tree, AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  check(copy, from);
  attach(static_cast<int>(copy), root_, path);
}

void ChildSteps::mount_overlay(const char* target) {
  attach(fd(Passed::kLower), AT_FDCWD, "lower");
  attach(fd(Passed::kDisk), AT_FDCWD, "disk");
  attach(fd(Passed::kKit), AT_FDCWD, "kit");
  // Mounted with the rights of the sandbox's root, so what the overlay does below is bounded by them too. No
  // nosuid: sudo must work; the ids that a setuid program can reach are all of this sandbox.
  mount("none", target, "overlay", MS_NODEV,
        "lowerdir=/lower,upperdir=/disk/upper,workdir=/disk/work,userxattr");
  root_ = open_in(AT_FDCWD, target, O_PATH | O_DIRECTORY, "open the root");
}

}  // namespace atl::runner
