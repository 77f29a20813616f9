// SPDX-License-Identifier: Apache-2.0
#include "runner/gvisor/runsc.h"

#include <fcntl.h>
#include <signal.h>
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
  static const char* const kEnvironment[] = {nullptr};
  ::syscall(SYS_execveat, call.program, "", arguments, kEnvironment, AT_EMPTY_PATH);
  return "exec runsc";
}

}  // namespace atl::runner::gvisor
