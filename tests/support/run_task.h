// SPDX-License-Identifier: Apache-2.0
//
// run_task: the result of a task that needs nothing but a loop.
#pragma once

#include <optional>

#include "async/task.h"

namespace atl::test_support {

template <class T>
async::Task<> keep_result(async::Task<T> task, std::optional<T>& out) {
  out.emplace(co_await std::move(task));
}

// Blocks on a loop of its own until the task has ended.
template <class T>
T run_task(async::Task<T> task) {
  async::asio::io_context loop;
  std::optional<T> out;
  async::asio::co_spawn(loop, keep_result(std::move(task), out), async::asio::detached);
  loop.run();
  return std::move(*out);
}

}  // namespace atl::test_support
