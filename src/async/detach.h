// SPDX-License-Identifier: Apache-2.0
//
// finish_in: work that must be finished even when the one who asked for it goes away.
#pragma once

#include <memory>
#include <optional>

#include "async/scope.h"

namespace atl::async {

namespace detail {
template <class T>
struct Handoff {
  explicit Handoff(Executor executor) : done(std::move(executor)) {}
  Event done;
  std::optional<Result<T>> value;
};

template <class T>
Task<> fill(std::shared_ptr<Handoff<T>> handoff, Task<Result<T>> task) {
  handoff->value.emplace(co_await std::move(task));
  handoff->done.notify_all();
}
}  // namespace detail

// Runs `task` in `scope` and waits for its answer. Cancelling the caller does not cancel the task. A scope
// that has been cancelled gives kCancelled.
template <class T>
Task<Result<T>> finish_in(Scope& scope, std::string name, Task<Result<T>> task) {
  auto handoff = std::make_shared<detail::Handoff<T>>(co_await asio::this_coro::executor);
  if (scope.cancelled()) co_return make_error(Code::kCancelled, "{}: shutting down", name);
  scope.spawn(std::move(name), detail::fill(handoff, std::move(task)));
  while (!handoff->value) co_await handoff->done.wait();
  co_return std::move(*handoff->value);
}

}  // namespace atl::async
