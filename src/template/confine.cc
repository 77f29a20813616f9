// SPDX-License-Identifier: Apache-2.0
#include "template/confine.h"

#include <sys/resource.h>

#include <string_view>

#include "base/units.h"
#include "sys/landlock.h"
#include "sys/seccomp/filter.h"

namespace atl::templates {
namespace {

[[maybe_unused]] constexpr rlim_t kMemoryBytes =
    1 * kGiB;  // xz needs up to 64 MiB for its dictionary, zstd up to 128 MiB
constexpr rlim_t kCpuSeconds = 1200;

// What reading an archive and writing files needs. No process, no socket, no execve, no mount, no ioctl.
constexpr std::string_view kAllowed[] = {
    "read",         "readv",          "pread64",      "write",       "writev",        "lseek",
    "open",         "openat",         "openat2",      "close",       "fstat",         "newfstatat",
    "stat",         "lstat",          "statx",        "access",      "faccessat",     "faccessat2",
    "mkdirat",      "symlinkat",      "linkat",       "fchown",      "fchownat",      "fchmod",
    "utimensat",    "getdents64",     "readlinkat",   "fcntl",       "mmap",          "munmap",
    "mremap",       "mprotect",       "madvise",      "brk",         "futex",         "getpid",
    "gettid",       "tgkill",         "getrandom",    "sysinfo",     "clock_gettime", "gettimeofday",
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "sched_yield",   "sched_getaffinity",
    "exit",         "exit_group"};

sys::FilterPolicy parser_policy() {
  sys::FilterPolicy policy;
  policy.otherwise = {sys::FilterAction::Kind::kKillProcess, 0};
  for (std::string_view call : kAllowed) policy.rules.push_back({.call = std::string(call)});
  return policy;
}

void bound(decltype(RLIMIT_AS) resource, rlim_t value) {
  rlimit limit{value, value};
  ::setrlimit(resource, &limit);
}

}  // namespace

Result<void> confine_parser() {
  bound(RLIMIT_CPU, kCpuSeconds);
#ifndef ATOLL_SANITIZED  // AddressSanitizer reserves terabytes of address space
  bound(RLIMIT_AS, kMemoryBytes);
#endif
  if (sys::landlock_abi() > 0) TRY_VOID(sys::landlock_restrict_files({{"/", true}}));
  TRY(sys::FilterProgram program, sys::compile_filter(parser_policy()));
  return sys::install_filter(program);
}

}  // namespace atl::templates
