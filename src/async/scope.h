// SPDX-License-Identifier: Apache-2.0
//
// Scope: owns background tasks. It cancels them when asked, and must be joined before it is destroyed.
#pragma once

#include <list>
#include <string>

#include "async/event.h"
#include "async/task.h"

namespace atl::async {

// Use from one loop only. A task that ends by an exception is logged with its name and counts as finished:
// exceptions do not cross a module, so one that arrives here is a bug.
class Scope {
 public:
  explicit Scope(Executor executor) : executor_(executor), idle_(executor) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope();

  // Starts `task`. After cancel() new tasks are refused: they are destroyed without running.
  void spawn(std::string name, Task<> task);
  // Asks all tasks to end: their pending operations return Code::kCancelled.
  void cancel();
  // Waits until no task is left.
  Task<> join();
  std::size_t size() const { return running_.size(); }
  bool cancelled() const { return cancelled_; }

 private:
  struct Entry {
    std::string name;
    asio::cancellation_signal signal;
  };
  void forget(std::list<Entry>::iterator entry);

  Executor executor_;
  Event idle_;
  std::list<Entry> running_;
  bool cancelled_ = false;
};

}  // namespace atl::async
