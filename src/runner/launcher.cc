// SPDX-License-Identifier: Apache-2.0
#include "runner/launcher.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "sys/process.h"
#include "sys/seqpacket.h"

namespace atl::runner {

Result<std::unique_ptr<Launcher>> Launcher::start(const LauncherConfig& config, std::size_t channels) {
  std::unique_ptr<Launcher> launcher(new Launcher);
  std::vector<sys::Fd> theirs;
  for (std::size_t i = 0; i < channels; ++i) {
    TRY(auto pair, sys::seqpacket_pair());
    launcher->idle_.push_back(std::move(pair.first));
    theirs.push_back(std::move(pair.second));
  }
  TRY(auto exits, sys::seqpacket_pair());
  pid_t runner = ::getpid();
  pid_t pid = ::fork();
  if (pid < 0) return Error::from_errno(errno, "fork the launcher");
  if (pid == 0) {
    // Without the runner there is nobody to answer to. The sandboxes themselves go on.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != runner) ::_exit(1);
    launcher->idle_.clear();
    exits.first.reset();
    launcher_main(config, std::move(theirs), std::move(exits.second));
  }
  launcher->exits_ = std::move(exits.first);
  TRY(launcher->pidfd_, sys::open_pidfd(pid));
  return launcher;
}

Launcher::~Launcher() = default;

sys::Fd Launcher::take_channel() {
  std::unique_lock lock(mutex_);
  returned_.wait(lock, [this] { return !idle_.empty(); });
  sys::Fd channel = std::move(idle_.back());
  idle_.pop_back();
  return channel;
}

void Launcher::give_back(sys::Fd channel) {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(channel));
  returned_.notify_one();
}

Result<Launcher::Launched> Launcher::order(LaunchOrder order, const PassedFds& fds) {
  sys::Fd channel = take_channel();
  Result<Launched> launched = exchange(channel.get(), order, fds);
  give_back(std::move(channel));
  return launched;
}

Result<Launcher::Launched> Launcher::exchange(int channel, const LaunchOrder& wanted, const PassedFds& fds) {
  LaunchOrder order = wanted;
  order.present = 0;
  std::array<int, kPassedCount> passed{};
  std::size_t count = 0;
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (fds[i] < 0) continue;
    order.present |= std::uint64_t{1} << i;
    passed[count++] = fds[i];
  }
  TRY_VOID(sys::send_message(channel, sys::bytes_of(order), std::span<const int>(passed.data(), count)));
  Launched launched{};
  TRY(sys::Received received,
      sys::receive_message(channel, std::as_writable_bytes(std::span<LaunchAnswer, 1>(&launched.answer, 1))));
  if (received.size != sizeof(LaunchAnswer) || launched.answer.launch_id != order.launch_id) {
    return make_error(Code::kUnavailable, "the launcher is gone")
        .with_hint("the supervisor restarts the runner; try again");
  }
  if (launched.answer.error != 0) {
    return Error::from_errno(launched.answer.error, fmt::format("launcher: {}", launched.answer.what));
  }
  if (received.fds.size() != 1) return make_error(Code::kInternal, "the launcher sent no descriptor");
  launched.fd = std::move(received.fds.front());
  return launched;
}

}  // namespace atl::runner
