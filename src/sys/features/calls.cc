// SPDX-License-Identifier: Apache-2.0
//
// Namespaces, processes, files, confinement: system calls alone.
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "sys/fd.h"
#include "sys/features/probes.h"
#include "sys/landlock.h"
#include "sys/process.h"

namespace atl::sys::probe {
namespace {

constexpr unsigned kKeyctlJoinSession = 1;
constexpr unsigned kHighFd = 1'000'000;  // no descriptor of ours has it
constexpr int kLandlockNeeded = 2;       // rules of renames are needed too (ABI 2)

// With a process inside, since some kinds are only entered by one.
int in_namespace(int flag) {
  if (::unshare(flag) != 0) return errno;
  pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) ::_exit(0);
  int status = 0;
  return outcome(::waitpid(child, &status, 0));
}

}  // namespace

int user_namespaces() { return in_namespace(CLONE_NEWUSER); }
int mount_namespaces() { return in_namespace(CLONE_NEWNS); }
int pid_namespaces() { return in_namespace(CLONE_NEWPID); }
int network_namespaces() { return in_namespace(CLONE_NEWNET); }
int ipc_namespaces() { return in_namespace(CLONE_NEWIPC); }
int uts_namespaces() { return in_namespace(CLONE_NEWUTS); }
int cgroup_namespaces() { return in_namespace(CLONE_NEWCGROUP); }

int setns() {
  Fd own(::open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC));
  return own ? outcome(::setns(own.get(), CLONE_NEWUTS)) : errno;
}

int clone3() {
  int pidfd = -1;
  ::clone_args arguments{};
  arguments.flags = CLONE_PIDFD;
  arguments.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  arguments.exit_signal = SIGCHLD;
  long child = ::syscall(SYS_clone3, &arguments, sizeof arguments);
  if (child == 0) ::_exit(0);
  if (child < 0) return errno;
  int status = 0;
  return outcome(::waitpid(static_cast<pid_t>(child), &status, 0));
}

int pidfd() {
  Result<Fd> opened = open_pidfd(::getpid());
  if (!opened.ok()) return number_of(opened);
  return outcome(::syscall(SYS_pidfd_send_signal, opened->get(), 0, nullptr, 0));
}

int close_range() { return outcome(::syscall(SYS_close_range, kHighFd, kHighFd + 1, CLOSE_RANGE_CLOEXEC)); }

int openat2() {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return outcome(::syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof how));
}

// KERNEL: with a bad descriptor and AT_EMPTY_PATH it fails with EBADF where it exists (execveat(2)).
int execveat() {
  char* none[] = {nullptr};
  ::syscall(SYS_execveat, -1, "", none, none, AT_EMPTY_PATH);
  return errno == EBADF ? 0 : errno;
}

int keyrings() { return outcome(::syscall(SYS_keyctl, kKeyctlJoinSession, nullptr)); }

int memfd_sealing() {
  Fd memory(::memfd_create("probe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return memory ? outcome(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL)) : errno;
}

// A filter that refuses one call; then the call is made.
int seccomp() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDOM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{sizeof code / sizeof code[0], code};
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) != 0)
    return errno;
  return ::syscall(SYS_getppid) < 0 && errno == EDOM ? 0 : EIO;
}

int landlock() {
  if (landlock_abi() < kLandlockNeeded) return landlock_abi() == 0 ? ENOSYS : EOPNOTSUPP;
  Result<Fd> ruleset = landlock_sandbox_ruleset();
  if (!ruleset.ok()) return number_of(ruleset);
  return outcome(::syscall(SYS_landlock_restrict_self, ruleset->get(), 0));
}

}  // namespace atl::sys::probe
