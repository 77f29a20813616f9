// SPDX-License-Identifier: Apache-2.0
#include "net/relay.h"

#include <boost/asio/experimental/awaitable_operators.hpp>

namespace atl::net {
namespace {

Task<Result<void>> copy_one_way(Stream& from, Stream& to) {
  RelayBuffer buffer;
  while (true) {
    CO_TRY(std::size_t got, co_await from.read_some(buffer.space()));
    if (got == 0) break;
    CO_TRY_VOID(co_await to.write_all(buffer.view(got)));
    buffer.passed_on(got);
  }
  CO_TRY_VOID(co_await to.shutdown_write());
  from.set_idle_limit(kHalfOpenIdle);
  to.set_idle_limit(kHalfOpenIdle);
  co_return success();
}

}  // namespace

void RelayBuffer::passed_on(std::size_t used) {
  if (used < size_ || size_ >= kLargest) return;
  size_ *= 4;
  bytes_ = std::make_unique_for_overwrite<char[]>(size_);
}

Task<> relay_one_way(Stream& from, Stream& to) {
  auto copied = co_await copy_one_way(from, to);
  if (copied.ok()) co_return;
  from.close(Stream::Close::kReset);
  to.close(Stream::Close::kReset);
}

Task<> relay(Stream& a, Stream& b) {
  using namespace async::asio::experimental::awaitable_operators;
  a.set_idle_limit(Steady::duration::zero());
  b.set_idle_limit(Steady::duration::zero());
  co_await (relay_one_way(a, b) && relay_one_way(b, a));
}

}  // namespace atl::net
