// SPDX-License-Identifier: Apache-2.0
//
// Session: the event loop of one command, with what its tasks share.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>

#include "async/blocking_pool.h"
#include "async/scope.h"
#include "async/task.h"

namespace atl::cli {

using async::Task;

class Session {
 public:
  Session() : scope_(loop_.get_executor()), signals_(loop_) {}

  async::Executor executor() { return loop_.get_executor(); }
  // One thread for writes that may block (standard output), so that signals are seen meanwhile.
  async::BlockingPool& blocking() { return blocking_; }

  // From now on these signals no longer end the process but call `call`, on the loop. A later call replaces
  // `call` and adds signals.
  void on_signals(std::initializer_list<int> numbers, std::function<void(int)> call);

  // Starts a background task of the command. When the command ends, its pending wait returns early; a task
  // that loops looks at ending().
  void spawn(std::string name, Task<> task);
  bool ending() const { return scope_.cancelled(); }

  // Runs the loop until `body` is done.
  Result<int> run(std::function<Task<Result<int>>(Session&)> body);

 private:
  Task<> drive(std::function<Task<Result<int>>(Session&)> body);
  void next_signal();

  async::asio::io_context loop_{1};
  async::BlockingPool blocking_{1};
  async::Scope scope_;
  async::Scope main_{loop_.get_executor()};
  async::asio::signal_set signals_;
  std::function<void(int)> on_signal_;
  std::optional<Result<int>> result_;
};

}  // namespace atl::cli
