// SPDX-License-Identifier: Apache-2.0
//
// Every path below is either in the launcher's private root, which only we made, or is opened without
// following links. The image is hostile: it may hold anything under any name.
#include "runner/container/child.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runner/container/profile.h"
#include "sys/label_guard.h"

namespace atl::runner::container {
namespace {

constexpr int kMntDetach = 2;                 // of sys/mount.h, which cannot stand beside linux/mount.h
constexpr std::uint64_t kLandlockScopes = 3;  // abstract unix sockets, signals; ABI 6

class Child : ChildSteps {
 public:
  explicit Child(const ChildPlan& plan) : ChildSteps(plan) {}
  [[noreturn]] void run();

 private:
  void build_root();
  void mount_proc();
  void mask(const Masked& masked);
  void mount_dev();
  void enter_root();
  void set_identity();
  void forbid_namespaces();
  void set_limits();
  void landlock();
  void keep_guards();
  void drop_bounding_set();
  void install_filter();
  void drop_capabilities();
  void place_descriptors();
  [[noreturn]] void exec_guestd();
  void lock_part(const char* path);

  int namespace_limits_ = -1;
};

void Child::mount_proc() {
  long context = ::syscall(SYS_fsopen, "proc", FSOPEN_CLOEXEC);
  check(context, "open proc");
  check(::syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0), "make proc");
  long proc = ::syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC,
                        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  check(proc, "mount proc");
  attach(static_cast<int>(proc), root_, "proc");
  int directory = open_in(root_, "proc", O_RDONLY | O_DIRECTORY, "open /proc");
  namespace_limits_ = open_in(directory, "sys/user", O_PATH | O_DIRECTORY, "open /proc/sys/user");
  check(::fchdir(directory), "enter /proc");
  for (const char* path : kReadOnlyProc) lock_part(path);
  for (const Masked& masked : kMaskedProc) mask(masked);
  mount("/kit/boot_id", "sys/kernel/random/boot_id", nullptr, MS_BIND, nullptr);
}

// Makes a part of /proc read-only, by a read-only mount of itself.
void Child::lock_part(const char* path) {
  if (::syscall(SYS_mount, path, path, nullptr, MS_BIND, nullptr) != 0) {
    if (errno == ENOENT) return;
    fail(path);
  }
  mount(nullptr, path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
}

void Child::mask(const Masked& masked) {
  struct stat before{}, after{};
  if (::lstat(masked.path, &before) != 0) return;
  // What only the host's root may read, root in here may not: it owns nothing of the host.
  if ((before.st_mode & S_IROTH) == 0) return;
  mount(masked.directory ? "/kit/empty" : "/kit/null", masked.path, nullptr, MS_BIND, nullptr);
  // Seen to be masked, not believed to be.
  if (::lstat(masked.path, &after) != 0 || after.st_dev == before.st_dev) {
    errno = EIO;
    fail(masked.path);
  }
}

void Child::mount_dev() {
  bind_kit("/kit/dev", "dev");
  int dev = open_in(root_, "dev", O_RDONLY | O_DIRECTORY, "open /dev");
  check(::fchdir(dev), "enter /dev");
  ::close(dev);
  mount("none", "pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5");
  char options[64];
  std::snprintf(options, sizeof options, "size=%llu,nr_inodes=65536,mode=1777",
                static_cast<unsigned long long>(plan_.order.shm_bytes));
  mount("none", "shm", "tmpfs", MS_NOSUID | MS_NODEV, options);
}

void Child::build_root() {
  mount_overlay("root");
  mount_proc();
  mount_dev();
  bind_kit("/kit/sys", "sys");
  forbid_namespaces();
}

// KERNEL: with both arguments ".", the old root ends up below the new one at the same place, where it can be
// detached without a directory for it (pivot_root(2)).
void Child::enter_root() {
  check(::fchdir(root_), "enter the root");
  check(::syscall(SYS_pivot_root, ".", "."), "pivot_root");
  check(::syscall(SYS_umount2, ".", kMntDetach), "detach the old root");
  check(::chdir("/"), "enter /");
}

void Child::set_identity() {
  check(::sethostname(plan_.order.hostname, std::strlen(plan_.order.hostname)), "set the host name");
}

// The seccomp filter refuses new namespaces too; this holds even where it has a hole. All other kinds take a
// capability that only a new user namespace could give (namespaces(7)). The directory was opened before it
// was made read-only.
void Child::forbid_namespaces() {
  int limit = open_in(namespace_limits_, "max_user_namespaces", O_WRONLY, "open the namespace limit");
  if (::write(limit, "0", 1) != 1) fail("set the namespace limit");
  ::close(limit);
}

void Child::set_limits() {
  const rlimit none{0, 0};
  check(::setrlimit(RLIMIT_CORE, &none), "forbid core files");
  rlimit memlock{kLockedMemory, kLockedMemory};
  check(::setrlimit(RLIMIT_MEMLOCK, &memlock), "limit locked memory");
}

// Everything stays allowed below / but making device nodes; any ruleset also forbids changing mounts.
void Child::landlock() {
  if (plan_.landlock_abi < 2) return;
  struct {
    std::uint64_t files, network, scoped;
  } attr{};
  attr.files = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_REFER;
  if (plan_.landlock_abi >= 6) attr.scoped = kLandlockScopes;
  long ruleset = ::syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
  check(ruleset, "make a Landlock ruleset");
  landlock_path_beneath_attr everywhere{};
  everywhere.allowed_access = LANDLOCK_ACCESS_FS_REFER;
  everywhere.parent_fd = root_;
  check(::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &everywhere, 0),
        "Landlock rule");
  check(::syscall(SYS_landlock_restrict_self, ruleset, 0), "restrict by Landlock");
}

// For labels of commands: the guest daemon has them to give, by the set that is inherited. KERNEL: that can
// only grow by what is in the bounding set (capabilities(7)), so nobody else gets them; the daemon takes them
// from all that it starts.
void Child::keep_guards() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  check(::syscall(SYS_capget, &header, data), "read capabilities");
  data[0].inheritable = static_cast<std::uint32_t>(sys::all_guards());
  data[1].inheritable = static_cast<std::uint32_t>(sys::all_guards() >> 32);
  check(::syscall(SYS_capset, &header, data), "keep guards");
}

void Child::drop_bounding_set() {
  for (int capability = 0; capability <= 63; ++capability) {
    if ((kCapabilities >> capability & 1u) != 0) continue;
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
      if (errno == EINVAL) break;  // past the last one that this kernel knows
      fail("drop a capability");
    }
  }
}

// KERNEL: without no_new_privs (which would break sudo) installing a filter takes CAP_SYS_ADMIN in the task's
// user namespace (seccomp(2)), so this comes before the capabilities go.
void Child::install_filter() {
  check(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, plan_.filter),
        "install the filter");
}

void Child::drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  constexpr std::uint64_t kKept = kCapabilities | sys::all_guards();
  data[0].permitted = data[0].effective = static_cast<std::uint32_t>(kKept);
  data[1].permitted = data[1].effective = static_cast<std::uint32_t>(kKept >> 32);
  data[0].inheritable = static_cast<std::uint32_t>(sys::all_guards());
  data[1].inheritable = static_cast<std::uint32_t>(sys::all_guards() >> 32);
  check(::syscall(SYS_capset, &header, data), "reduce capabilities");
}

// The numbers below kFirstOwnFd of the launcher hold nothing of worth, so no copy overwrites a source.
void Child::place_descriptors() {
  int null = ::open("/dev/null", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  check(null, "open /dev/null");
  struct stat info{};
  if (::fstat(null, &info) != 0 || !S_ISCHR(info.st_mode) || info.st_rdev != kNullDevice) {
    errno = EIO;
    fail("/dev/null is not itself");
  }
  check(::syscall(SYS_close_range, 0, ~0u, CLOSE_RANGE_CLOEXEC), "mark descriptors");
  const struct {
    int number;
    int source;
  } places[] = {
      {0, null},
      {1, null},
      {2, null},
      {kGuestBootFd, fd(Passed::kBoot)},
      {kGuestListenFd, fd(Passed::kListener)},
      {kGuestMemoryEventsFd, fd(Passed::kMemoryEvents)},
      {kGuestMemoryUsageFd, fd(Passed::kMemoryUsage)},
      {kGuestMemoryStatFd, fd(Passed::kMemoryStat)},
      {kGuestCpuUsageFd, fd(Passed::kCpuUsage)},
  };
  for (const auto& place : places) check(::dup3(place.source, place.number, 0), "place a descriptor");
  if (fd(Passed::kGroup) >= 0) check(::dup3(fd(Passed::kGroup), kGuestCgroupFd, 0), "place a descriptor");
}

void Child::exec_guestd() {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  char name[] = "atoll-guestd", flag[] = "--boot-fd", number[] = "3";
  static_assert(kGuestBootFd == 3);
  char* arguments[] = {name, flag, number, nullptr};
  char* environment[] = {nullptr};
  report(0, "", 0);
  ::syscall(SYS_execveat, fd(Passed::kGuestd), "", arguments, environment, AT_EMPTY_PATH);
  fail("exec the guest daemon");
}

void Child::run() {
  join_cgroups();
  wait_for_maps();
  report_.released_ns = now_ns();
  become_root();
  build_root();
  report_.mounted_ns = now_ns();
  enter_root();
  report_.pivoted_ns = now_ns();
  place_descriptors();
  set_identity();
  set_limits();
  landlock();
  keep_guards();
  drop_bounding_set();
  install_filter();
  drop_capabilities();
  report_.confined_ns = now_ns();
  exec_guestd();
}

}  // namespace

void run_child(const ChildPlan& plan) { Child(plan).run(); }

}  // namespace atl::runner::container
