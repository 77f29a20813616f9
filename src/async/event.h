// SPDX-License-Identifier: Apache-2.0
//
// Event: tasks of one loop wait until something happens. Not thread safe; use from its loop only.
#pragma once

#include "async/task.h"

namespace atl::async {

// Edge-like: notify_all wakes those that wait now. A waiter re-checks its condition in a loop:
//
//   while (queue.empty()) co_await changed.wait();
class Event {
 public:
  explicit Event(Executor executor) : timer_(std::move(executor), Steady::time_point::max()) {}

  void notify_all() { timer_.cancel(); }
  Task<> wait() { co_await timer_.async_wait(use_result); }
  // True when notified, false when `deadline` passed first.
  Task<bool> wait_until(Steady::time_point deadline);

 private:
  asio::steady_timer timer_;
};

}  // namespace atl::async
