// SPDX-License-Identifier: Apache-2.0
//
// Reaper: the duties of PID 1 towards children, its own and those that lost their parents.
#pragma once

#include "async/task.h"
#include "guest/process.h"
#include "sys/fd.h"

namespace atl::guest {

// Blocks the signals that Reaper takes from a descriptor. Call from main before any thread is made.
void block_child_signals();

// One per program. Use from its loop only.
class Reaper {
 public:
  Reaper(async::Executor executor, ProcessTable& processes);
  // Takes every child that has ended, at once, until stop().
  async::Task<> run();
  void stop();

 private:
  void reap_all();
  ProcessTable& processes_;
  async::asio::posix::stream_descriptor signals_;
};

}  // namespace atl::guest
