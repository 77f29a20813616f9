// SPDX-License-Identifier: Apache-2.0
//
// within: bounds a task in time.
#pragma once

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "async/task.h"

namespace atl::async {

// The answer of `task`, or kDeadline when `limit` passes first; `task` is then cancelled at the operation it
// waits in. `what` names the task in the error.
template <class T>
Task<Result<T>> within(Steady::duration limit, std::string what, Task<Result<T>> task) {
  using namespace asio::experimental::awaitable_operators;
  asio::steady_timer timer(co_await asio::this_coro::executor, limit);
  auto first = co_await (std::move(task) || timer.async_wait(use_result));
  if (first.index() == 0) co_return std::get<0>(std::move(first));
  co_return make_error(Code::kDeadline, "{}: no answer within {} ms", what,
                       std::chrono::duration_cast<Millis>(limit).count());
}

}  // namespace atl::async
