// SPDX-License-Identifier: Apache-2.0
//
// The runner's side of the launcher.
#pragma once

#include <sys/types.h>

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "runner/launch.h"
#include "sys/fd.h"
#include "sys/seccomp/filter.h"

namespace atl::runner {

// What the launcher carries from its birth on.
struct LauncherConfig {
  std::string stage;  // an existing directory; the launcher's private root goes over it, unseen by others
  sys::FilterProgram filter;  // for sandboxes
  int landlock_abi = 0;
  int lock = -1;  // that no other runner of this run directory has; borrowed
};

// The descriptors of an order by Passed; -1 = absent. Borrowed for the call.
using PassedFds = std::array<int, kPassedCount>;
inline int& at(PassedFds& fds, Passed which) { return fds[static_cast<std::size_t>(which)]; }

class Launcher {
 public:
  // Forks the launcher. Call before any thread is started. At most `channels` orders are under way at a time.
  static Result<std::unique_ptr<Launcher>> start(const LauncherConfig& config, std::size_t channels);
  ~Launcher();

  struct Launched {
    LaunchAnswer answer;
    sys::Fd fd;  // pidfd, or the user namespace
  };
  // Sends an order and waits for its answer; a failed order is an error. Thread safe.
  Result<Launched> order(LaunchOrder order, const PassedFds& fds);

  int pidfd() const { return pidfd_.get(); }  // readable when the launcher is dead
  int exits() const { return exits_.get(); }  // messages LaunchExit

 private:
  Launcher() = default;
  sys::Fd take_channel();
  void give_back(sys::Fd channel);
  static Result<Launched> exchange(int channel, const LaunchOrder& order, const PassedFds& fds);

  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<sys::Fd> idle_;  // channels
  sys::Fd exits_;
  sys::Fd pidfd_;
};

// The launcher itself; never returns. `orders` are its ends of the channels.
[[noreturn]] void launcher_main(const LauncherConfig& config, std::vector<sys::Fd> orders, sys::Fd exits);

}  // namespace atl::runner
