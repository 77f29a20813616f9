// SPDX-License-Identifier: Apache-2.0
#include "runner/gvisor/runsc.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace atl::runner::gvisor {
namespace {

// Every file of the guest goes through the gofer (no directfs), so that the process with the guest's kernel
// in it has no right to open anything. What still has a connection to the outside when memory is written to
// files must not make that fail: nobody holds it any more, or the sandbox would not have been asked (0087).
constexpr const char* kFlags[] = {"runsc",
                                  "--root=/state",
                                  "--log-fd=5",
                                  "--platform=systrap",
                                  "--ignore-cgroups",
                                  "--network=sandbox",
                                  "--net-disconnect-ok",
                                  "--overlay2=none",
                                  "--directfs=false",
                                  "--host-uds=none",
                                  "--host-fifo=none"};
constexpr std::size_t kFlagCount = sizeof kFlags / sizeof kFlags[0];
constexpr std::size_t kMaxArguments = kFlagCount + 12;

// KERNEL: a program of several threads that registers for membarrier(2) waits for a grace period of RCU, 8
// to 19 ms (sync_runqueues_membarrier_state() in kernel/sched/membarrier.c). Each of the seven programs that
// a start of runsc runs does so before it does anything else (gVisor's pkg/sentry/hostmm). Where the kernel
// has no such call they go on at once, and the guest's kernel does not offer it either. What a process of the
// guest calls never gets here: the trap of systrap's own filter comes before this errno (seccomp(2)).
bool refuse_barriers() {
  static const sock_filter kRules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof kRules / sizeof kRules[0], const_cast<sock_filter*>(kRules)};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) == 0;
}

}  // namespace

const char* exec_runsc(const RunscCall& call) {
  static_assert(kLogFd == 5);
  int null = ::fcntl(::open("/dev/null", O_RDWR | O_CLOEXEC | O_NOFOLLOW), F_DUPFD_CLOEXEC, call.first_free);
  if (null < 0) return "open /dev/null";
  const struct {
    int number;
    int source;
  } places[] = {{0, null},         {1, null}, {2, null}, {kBootFd, call.boot}, {kReadyFd, call.ready},
                {kLogFd, call.log}};
  for (const auto& place : places) {
    if (place.source >= 0 && ::dup3(place.source, place.number, 0) < 0) return "place a descriptor";
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const char* arguments[kMaxArguments + 1] = {};
  std::size_t count = 0;
  for (const char* flag : kFlags) arguments[count++] = flag;
  for (const char* argument : call.arguments) {
    if (count == kMaxArguments) {
      errno = E2BIG;
      return "call runsc";
    }
    arguments[count++] = argument;
  }
  if (!refuse_barriers()) return "refuse membarrier";
  static const char* const kEnvironment[] = {nullptr};
  ::syscall(SYS_execveat, call.program, "", arguments, kEnvironment, AT_EMPTY_PATH);
  return "exec runsc";
}

}  // namespace atl::runner::gvisor
