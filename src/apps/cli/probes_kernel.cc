// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "apps/cli/leftovers.h"
#include "apps/cli/probes.h"
#include "sys/cgroup.h"
#include "sys/files.h"
#include "sys/landlock.h"
#include "sys/mount.h"
#include "sys/process.h"

namespace atl::cli {
namespace {

using State = Finding::State;

constexpr char kProbeGroup[] = "atoll-doctor";

// Runs `work` in a child and gives its errno, 0 for success.
int in_child(const std::function<int()>& work) {
  pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) ::_exit(work());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

Finding from_errno(std::string name, int number, std::string ok_detail, std::string remedy) {
  if (number == 0) return {std::move(name), State::kOk, std::move(ok_detail), ""};
  return {std::move(name), State::kFailed, ::strerror(number), std::move(remedy)};
}

Finding from_result(std::string name, const Result<void>& result, std::string ok_detail, std::string remedy) {
  if (result.ok()) return {std::move(name), State::kOk, std::move(ok_detail), ""};
  return {std::move(name), State::kFailed, result.error().message(), std::move(remedy)};
}

Finding kernel_version() {
  utsname name{};
  ::uname(&name);
  return {"kernel", State::kOk, fmt::format("{} {} {}", name.sysname, name.release, name.machine), ""};
}

Finding namespaces() {
  constexpr int kAll = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                       CLONE_NEWUTS | CLONE_NEWCGROUP;
  int number = in_child([] { return ::unshare(kAll) == 0 ? 0 : errno; });
  return from_errno(
      "namespaces", number, "user, mount, pid, net, ipc, uts and cgroup can be made",
      "allow user namespaces: sysctl user.max_user_namespaces=65536 (in a container: run it privileged)");
}

// A file system that the kernel can open is one it can mount; opening loads the module where there is one
// (fsopen(2)).
Finding file_system(const std::string& type, const std::string& use) {
  sys::Fd fd(static_cast<int>(::syscall(SYS_fsopen, type.c_str(), 1 /* FSOPEN_CLOEXEC */)));
  int number = fd ? 0 : errno;
  return from_errno(type + " file system", number, use,
                    fmt::format("load it: modprobe {}; the kernel needs CONFIG_{}_FS", type, type));
}

// All layers on one tmpfs, in a mount namespace of the caller's own.
Result<void> try_overlay() {
  TRY_VOID(sys::enter_private_mount_namespace());
  TRY(sys::Fd base, sys::mount_new("tmpfs", {}, 0));
  TRY_VOID(sys::attach_mount(base.get(), "/tmp"));
  for (const char* path : {"/tmp/l", "/tmp/u", "/tmp/w"}) TRY_VOID(sys::ensure_directory(path, 0755));
  TRY(sys::Fd overlay,
      sys::mount_new("overlay", {{"lowerdir", "/tmp/l"}, {"upperdir", "/tmp/u"}, {"workdir", "/tmp/w"}}, 0));
  return success();
}

Finding overlay() {
  int number = in_child([] {
    auto mounted = try_overlay();
    int failed = mounted.ok() ? 0 : mounted.error().sys_errno();
    return mounted.ok() || failed != 0 ? failed : EIO;
  });
  return from_errno("overlay file system", number, "a writable layer over a read-only one can be mounted",
                    "load it: modprobe overlay; the kernel needs CONFIG_OVERLAY_FS");
}

Finding loop_devices() {
  auto control = sys::open_file("/dev/loop-control", O_RDWR);
  return from_result("loop devices", control.ok() ? success() : Result<void>(control.error()),
                     "/dev/loop-control opens",
                     "load it: modprobe loop (in a container: give it /dev/loop-control and /dev/loop*)");
}

// Makes a group with limits in every hierarchy, as a sandbox would have it, and takes it away again.
Finding cgroups() {
  auto groups = sys::Cgroups::open(kProbeGroup);
  std::string remedy =
      "mount the cgroup hierarchies with the memory, cpu and pids controllers (cgroup v2: enable them in "
      "cgroup.subtree_control)";
  if (!groups.ok()) return {"cgroups", State::kFailed, groups.error().message(), remedy};
  auto handles = groups->create("probe", {64u << 20, 1000, 64});
  auto made = handles.ok() ? success() : Result<void>(handles.error());
  if (handles.ok()) handles->tasks.clear();
  auto removed = groups->remove("probe", std::chrono::seconds(2));
  groups->remove_parent();
  constexpr const char* kModes[] = {"", "version 1", "hybrid", "version 2"};
  std::string mode = kModes[static_cast<std::size_t>(groups->mode())];
  return from_result("cgroups", made.ok() ? removed : made,
                     fmt::format("{}; memory, cpu and pids limits can be set", mode), remedy);
}

Finding firewall(const Config& config) {
  auto exists = firewall_table_exists(config.instance);
  return from_result("nftables", exists.ok() ? success() : Result<void>(exists.error()), "the kernel answers",
                     "load it: modprobe nf_tables; without it sandboxes cannot be kept off private networks");
}

Finding seccomp() {
  std::uint32_t action = SECCOMP_RET_ERRNO;
  int number = ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0 ? 0 : errno;
  return from_errno("seccomp", number, "system call filters are available",
                    "the kernel needs CONFIG_SECCOMP_FILTER");
}

Finding landlock() {
  int abi = sys::landlock_abi();
  if (abi > 0) return {"Landlock", State::kOk, fmt::format("ABI {}", abi), ""};
  return {"Landlock", State::kWarning, "not in this kernel, or not switched on",
          "add landlock to the kernel parameter lsm=; sandboxes run without this layer until then"};
}

Finding pidfds() {
  auto pidfd = sys::open_pidfd(::getpid());
  return from_result("pidfds", pidfd.ok() ? success() : Result<void>(pidfd.error()),
                     "processes can be named without races", "Linux 5.3 or newer is needed");
}

Finding cgroup_kill_and_clone() {
  // clone3(2) with a size of 0 is refused with EINVAL by kernels that have it.
  long answer = ::syscall(SYS_clone3, nullptr, 0);
  bool present = answer < 0 && errno == EINVAL;
  return from_errno("clone3", present ? 0 : ENOSYS, "processes can be started inside a cgroup",
                    "Linux 5.7 or newer is needed");
}

}  // namespace

std::string_view state_word(State state) {
  switch (state) {
    case State::kOk: return "ok";
    case State::kWarning: return "warning";
    case State::kFailed: return "failed";
    case State::kSkipped: return "skipped";
  }
  return "failed";
}

std::vector<Finding> probe_kernel(const Config& config) {
  std::vector<Finding> out{kernel_version(), namespaces(), seccomp(),
                           landlock(),       pidfds(),     cgroup_kill_and_clone()};
  if (::geteuid() != 0) {
    out.push_back(
        {"file systems, cgroups, firewall", State::kSkipped, "these need root", "run 'sudo atoll doctor'"});
    return out;
  }
  out.push_back(file_system("erofs", "templates can be mounted"));
  out.push_back(file_system("ext4", "disks of sandboxes can be mounted"));
  out.push_back(overlay());
  out.push_back(loop_devices());
  out.push_back(cgroups());
  out.push_back(firewall(config));
  return out;
}

}  // namespace atl::cli
