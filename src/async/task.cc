// SPDX-License-Identifier: Apache-2.0
#include "async/task.h"

namespace atl::async {

Error from_asio(const boost::system::error_code& error, std::string_view what) {
  if (error == asio::error::eof)
    return make_error(Code::kUnavailable, "{}: connection closed by the peer", what);
  if (error == asio::error::operation_aborted) return make_error(Code::kCancelled, "{}: cancelled", what);
  if (error.category() == boost::system::system_category()) return Error::from_errno(error.value(), what);
  return make_error(Code::kUnavailable, "{}: {}", what, error.message());
}

Task<> sleep_for(Steady::duration duration) {
  asio::steady_timer timer(co_await asio::this_coro::executor, duration);
  co_await timer.async_wait(use_result);
}

Task<> yield() { co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable); }

}  // namespace atl::async
