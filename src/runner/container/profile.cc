// SPDX-License-Identifier: Apache-2.0
#include "runner/container/profile.h"

#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/socket.h>

#include <cerrno>
#include <string_view>

#include "base/text.h"

namespace atl::runner::container {
namespace {

using sys::ArgumentTest;
using sys::FilterAction;
using Kind = FilterAction::Kind;
using Op = ArgumentTest::Op;

// By theme, so that a reader can see what is missing. Lines with # are comments.
constexpr std::string_view kAllowed = R"(
# files and directories
  access chdir chmod chown chroot close close_range copy_file_range creat dup dup2 dup3 faccessat
  faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync
  fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync ftruncate futimesat getcwd
  getdents getdents64 getxattr getxattrat inotify_add_watch inotify_init inotify_init1 inotify_rm_watch
  ioctl lchown lgetxattr link linkat listxattr listxattrat llistxattr lremovexattr lseek lsetxattr lstat
  memfd_create mkdir mkdirat mknod mknodat newfstatat open openat openat2 pipe pipe2 pread64 preadv
  preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv removexattr removexattrat
  rename renameat renameat2 rmdir sendfile setxattr setxattrat splice stat statfs statx symlink symlinkat
  sync sync_file_range syncfs tee truncate umask unlink unlinkat utime utimensat utimes vmsplice write
  writev
# waiting for files
  epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 poll ppoll
  pselect6 select signalfd signalfd4 timerfd_create timerfd_gettime timerfd_settime
# asynchronous I/O of the old kind; io_uring is not here: its operations pass no filter
  io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit
# memory
  brk cachestat madvise map_shadow_stack mincore mlock mlock2 mlockall mmap mprotect mremap mseal msync
  munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect process_madvise remap_file_pages
# processes and threads
  alarm arch_prctl capget capset clone execve execveat exit exit_group fork futex futex_requeue futex_wait
  futex_waitv futex_wake get_robust_list get_thread_area getcpu getegid geteuid getgid getgroups getpgid
  getpgrp getpid getppid getpriority getresgid getresuid getrlimit getrusage getsid gettid getuid
  ioprio_get ioprio_set kill membarrier pause pidfd_open pidfd_send_signal prctl prlimit64
  process_mrelease ptrace process_vm_readv process_vm_writev restart_syscall rseq sched_get_priority_max
  sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
  sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield
  seccomp set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setitimer
  setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid setuid getitimer tgkill tkill
  vfork wait4 waitid landlock_add_rule landlock_create_ruleset landlock_restrict_self
# signals
  rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
  rt_tgsigqueueinfo sigaltstack
# time and facts
  clock_getres clock_gettime clock_nanosleep getrandom gettimeofday nanosleep sysinfo time timer_create
  timer_delete timer_getoverrun timer_gettime timer_settime times uname
# sockets
  accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg sendmmsg
  sendmsg sendto setsockopt shutdown socket socketpair
# System V and POSIX message passing, in the sandbox's own IPC namespace
  mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd
  semctl semget semop semtimedop shmat shmctl shmdt shmget
)";

// Refused by name with EPERM, as root without the capability would see it. All else is ENOSYS, which C
// libraries take as a hint to do without (a new call must not look like a refusal).
constexpr std::string_view kRefused = R"(
  acct add_key adjtimex bpf clock_adjtime clock_settime delete_module fanotify_init fanotify_mark
  finit_module fsconfig fsmount fsopen fspick init_module ioperm iopl kcmp kexec_file_load kexec_load
  keyctl mbind migrate_pages modify_ldt mount mount_setattr move_mount move_pages name_to_handle_at
  open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root quotactl quotactl_fd reboot
  request_key set_mempolicy setdomainname sethostname setns settimeofday swapoff swapon syslog umount2
  unshare userfaultfd vhangup
)";

// Personalities without effect on safety; 0xffffffff only asks.
constexpr std::uint64_t kPersonalities[] = {0, 0x8, 0x20000, 0x20008, 0xffffffff};

constexpr std::uint64_t kLow32 =
    0xffffffff;  // the kernel reads these arguments as 32 bits: the rest must not matter

// clone3 is ENOSYS by default, since its flags are behind a pointer; libraries then use clone.
constexpr std::uint64_t kNamespaceFlags[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                             CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
// Typing into the terminal of another, or into the console's selection buffer.
constexpr std::uint64_t kRefusedIoctls[] = {TIOCSTI, TIOCLINUX, TIOCCONS};

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::string_view line : split(text, '\n')) {
    if (line.starts_with('#')) continue;
    for (std::string_view word : split(line, ' ')) {
      if (!word.empty()) out.push_back(word);
    }
  }
  return out;
}

}  // namespace

sys::FilterPolicy allowed_calls() {
  sys::FilterPolicy policy;
  policy.otherwise = {Kind::kErrno, ENOSYS};
  for (std::string_view call : words(kAllowed)) policy.rules.push_back({std::string(call)});
  for (std::string_view call : words(kRefused)) {
    policy.rules.push_back({std::string(call), {Kind::kErrno, EPERM}});
  }
  for (std::uint64_t value : kPersonalities) {
    policy.rules.push_back({"personality", {Kind::kAllow}, {{0, Op::kEqual, value}}});
  }
  return policy;
}

sys::FilterPolicy refused_arguments() {
  sys::FilterPolicy policy;
  policy.otherwise = {Kind::kAllow};
  for (std::uint64_t flag : kNamespaceFlags) {
    policy.rules.push_back({"clone", {Kind::kErrno, EPERM}, {{0, Op::kMaskedEqual, flag, flag}}});
  }
  for (std::uint64_t request : kRefusedIoctls) {
    policy.rules.push_back({"ioctl", {Kind::kErrno, EPERM}, {{1, Op::kMaskedEqual, kLow32, request}}});
  }
  for (const char* call : {"socket", "socketpair"}) {
    FilterAction refuse{Kind::kErrno, EAFNOSUPPORT};
    policy.rules.push_back({call, refuse, {{0, Op::kGreater, AF_NETLINK}}});
    for (std::uint64_t family = 0; family < AF_NETLINK; ++family) {
      if (family == AF_UNIX || family == AF_INET || family == AF_INET6) continue;
      policy.rules.push_back({call, refuse, {{0, Op::kEqual, family}}});
    }
    // Of netlink only NETLINK_ROUTE (0): getifaddrs(3) and friends need it.
    policy.rules.push_back(
        {call, {Kind::kErrno, EPROTONOSUPPORT}, {{0, Op::kEqual, AF_NETLINK}, {2, Op::kNotEqual, 0}}});
  }
  return policy;
}

}  // namespace atl::runner::container
