// SPDX-License-Identifier: Apache-2.0
#include "apps/daemon/privileges.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "sys/files.h"
#include "sys/seccomp/filter.h"

namespace atl::daemons {
namespace {

Result<passwd> find_user(const std::string& user) {
  errno = 0;
  const passwd* entry = ::getpwnam(user.c_str());
  if (entry) return *entry;
  return make_error(Code::kNotFound, "there is no user '{}' on this machine", user)
      .with_hint("make it with: useradd --system --no-create-home " + user + ", or give --user");
}

bool is_root() { return ::geteuid() == 0; }

using Test = sys::ArgumentTest;
using Op = sys::ArgumentTest::Op;

void allow(sys::FilterPolicy& policy, std::initializer_list<const char*> calls) {
  for (const char* call : calls) policy.rules.push_back({call, {}, {}});
}

void allow_if(sys::FilterPolicy& policy, const char* call, Test test) {
  policy.rules.push_back({call, {}, {test}});
}

// Everything that the daemons, SQLite, OpenSSL and the C library do while serving. Not among it: starting
// programs, changing identity, mounts, namespaces, tracing, raw sockets, executable memory.
sys::FilterPolicy daemon_calls() {
  sys::FilterPolicy policy;
  policy.otherwise = {sys::FilterAction::Kind::kErrno, EPERM};
  // Reading, writing and naming files; Landlock says where.
  allow(policy, {"read",       "readv",      "write",     "writev",    "pread64",   "pwrite64",   "preadv",
                 "pwritev",    "close",      "fstat",     "stat",      "lstat",     "newfstatat", "statx",
                 "lseek",      "open",       "openat",    "access",    "faccessat", "faccessat2", "readlink",
                 "readlinkat", "unlink",     "unlinkat",  "rename",    "renameat",  "renameat2",  "mkdir",
                 "mkdirat",    "getdents64", "ftruncate", "fallocate", "fsync",     "fdatasync",  "fchmod",
                 "fchown",     "fcntl",      "flock",     "fadvise64", "getcwd",    "umask",      "ioctl",
                 "dup",        "fstatfs",    "statfs",    "utimensat"});
  // Sockets and the event loop.
  allow(policy, {"connect",         "accept",      "accept4",        "bind",
                 "listen",          "getsockname", "getpeername",    "setsockopt",
                 "getsockopt",      "sendto",      "sendmsg",        "recvfrom",
                 "recvmsg",         "shutdown",    "socketpair",     "poll",
                 "ppoll",           "select",      "pselect6",       "epoll_create",
                 "epoll_create1",   "epoll_ctl",   "epoll_wait",     "epoll_pwait",
                 "epoll_pwait2",    "eventfd2",    "timerfd_create", "timerfd_settime",
                 "timerfd_gettime", "pipe",        "pipe2"});
  for (int family : {AF_UNIX, AF_INET, AF_INET6}) {
    allow_if(policy, "socket", {0, Op::kEqual, static_cast<std::uint64_t>(family)});
  }
  // Memory, but none that can be executed.
  allow(policy, {"munmap", "mremap", "madvise", "brk", "mlock", "munlock", "msync"});
  allow_if(policy, "mmap", {2, Op::kMaskedEqual, PROT_EXEC, 0});
  allow_if(policy, "mprotect", {2, Op::kMaskedEqual, PROT_EXEC, 0});
  // Threads of this process, no children.
  allow_if(policy, "clone", {0, Op::kMaskedEqual, CLONE_THREAD, CLONE_THREAD});
  policy.rules.push_back(
      {"clone3", {sys::FilterAction::Kind::kErrno, ENOSYS}, {}});  // the C library then uses clone
  allow(policy, {"futex",
                 "futex_waitv",
                 "set_robust_list",
                 "get_robust_list",
                 "rseq",
                 "membarrier",
                 "sched_yield",
                 "sched_getaffinity",
                 "sched_getparam",
                 "sched_getscheduler",
                 "set_tid_address",
                 "gettid",
                 "getpid",
                 "getppid",
                 "tgkill",
                 "tkill",
                 "rt_sigaction",
                 "rt_sigprocmask",
                 "rt_sigreturn",
                 "sigaltstack",
                 "restart_syscall",
                 "exit",
                 "exit_group"});
  allow_if(policy, "prctl", {0, Op::kEqual, PR_SET_NAME});
  // Questions.
  allow(policy, {"getuid", "geteuid", "getgid", "getegid", "uname", "sysinfo", "getrusage", "prlimit64",
                 "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time",
                 "getrandom", "times"});
  return policy;
}

}  // namespace

Result<void> own_directory(const std::string& path, const std::string& user) {
  TRY_VOID(sys::ensure_directory(path, 0700));
  if (!is_root() || user.empty()) return {};
  TRY(passwd entry, find_user(user));
  if (::lchown(path.c_str(), entry.pw_uid, entry.pw_gid) != 0)
    return Error::from_errno(errno, "give " + path + " to " + user);
  return {};
}

Result<void> share_socket(const std::string& path, const std::string& user) {
  if (!is_root() || user.empty()) return {};
  TRY(passwd entry, find_user(user));
  if (::lchown(path.c_str(), 0, entry.pw_gid) != 0 || ::chmod(path.c_str(), 0660) != 0)
    return Error::from_errno(errno, "give " + path + " to the group of " + user);
  return {};
}

Result<void> become_user(const std::string& user) {
  ::umask(0077);
  if (is_root() && !user.empty()) {
    TRY(passwd entry, find_user(user));
    if (::initgroups(user.c_str(), entry.pw_gid) != 0)
      return Error::from_errno(errno, "take the groups of " + user);
    if (::setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid) != 0)
      return Error::from_errno(errno, "become group of " + user);
    if (::setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid) != 0)
      return Error::from_errno(errno, "become user " + user);
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Error::from_errno(errno, "set no_new_privs");
  // No core files and no tracing by the same user: the memory holds tokens.
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return Error::from_errno(errno, "forbid core dumps");
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);  // the limits of the server hold with the soft limit too
  }
  return {};
}

Result<sys::Fd> lock_directory(const std::string& directory, const std::string& program) {
  std::string path = directory + "/lock";
  TRY(sys::Fd fd, sys::open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return Error::from_errno(errno, "lock " + path);
  return make_error(Code::kConflict, "another {} runs on this data directory ({} is locked)", program, path)
      .with_hint("stop it first, or give this one another --data-dir");
}

Result<void> confine_files(std::vector<sys::LandlockPath> paths) {
  if (sys::landlock_abi() == 0) {
    log::warn("this kernel has no Landlock; files are protected by owner and mode only");
    return {};
  }
  for (const char* path :
       {"/dev/null", "/dev/urandom", "/etc/localtime", "/usr/share/zoneinfo", "/etc/ssl"}) {
    if (::access(path, F_OK) == 0) paths.push_back({path, false});
  }
  return sys::landlock_restrict_files(paths);
}

Result<void> confine_calls() {
  TRY(auto program, sys::compile_filter(daemon_calls()));
  return sys::install_filter(program);
}

}  // namespace atl::daemons
