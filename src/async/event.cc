// SPDX-License-Identifier: Apache-2.0
#include "async/event.h"

#include <boost/asio/experimental/awaitable_operators.hpp>

namespace atl::async {

Task<bool> Event::wait_until(Steady::time_point deadline) {
  using namespace asio::experimental::awaitable_operators;
  asio::steady_timer limit(co_await asio::this_coro::executor, deadline);
  auto first = co_await (timer_.async_wait(use_result) || limit.async_wait(use_result));
  co_return first.index() == 0;
}

}  // namespace atl::async
