// SPDX-License-Identifier: Apache-2.0
#include "guest/reaper.h"

#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/check.h"

namespace atl::guest {
namespace {

sigset_t child_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  return set;
}

int make_signal_descriptor() {
  sigset_t set = child_signals();
  int fd = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  CHECK(fd >= 0, "signalfd failed: errno {}", errno);
  return fd;
}

}  // namespace

void block_child_signals() {
  sigset_t set = child_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Reaper::Reaper(async::Executor executor, ProcessTable& processes)
    : processes_(processes), signals_(executor, make_signal_descriptor()) {}

void Reaper::stop() { signals_.cancel(); }

async::Task<> Reaper::run() {
  for (;;) {
    // Children may have ended before the first signal could be taken, so look first.
    reap_all();
    auto [error] =
        co_await signals_.async_wait(async::asio::posix::stream_descriptor::wait_read, async::use_result);
    if (error) co_return;
    struct signalfd_siginfo info;
    while (::read(signals_.native_handle(), &info, sizeof info) > 0) {}
  }
}

// KERNEL: one SIGCHLD may stand for many children, so all are asked for.
void Reaper::reap_all() {
  for (;;) {
    int status = 0;
    pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) return;
    processes_.on_exit(pid, status);
  }
}

}  // namespace atl::guest
