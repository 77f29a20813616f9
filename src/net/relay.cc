// SPDX-License-Identifier: Apache-2.0
#include "net/relay.h"

#include <boost/asio/experimental/awaitable_operators.hpp>

namespace atl::net {
namespace {

// The last large buffer that was given back on this thread: taking it again costs no fresh pages.
thread_local std::unique_ptr<char[]> spare;

Task<Result<void>> copy_one_way(Stream& from, Stream& to, const std::optional<FairShare::User>& memory) {
  RelayBuffer buffer(memory);
  while (true) {
    if (!buffer.filled()) {
      buffer.release();
      CO_TRY_VOID(co_await from.wait_readable());
    }
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

std::span<char> RelayBuffer::space() {
  while (!bytes_ && share_ && !share_->grow(size_ - kFirst)) size_ /= 4;
  if (!bytes_ && size_ == kLargest && spare) bytes_ = std::move(spare);
  if (!bytes_) bytes_ = std::make_unique_for_overwrite<char[]>(size_);
  return {bytes_.get(), size_};
}

void RelayBuffer::release() {
  if (bytes_ && size_ == kLargest && !spare) spare = std::move(bytes_);
  bytes_.reset();
  if (share_) share_->shrink(share_->amount());
}

void RelayBuffer::resize(std::size_t size) {
  release();
  size_ = size;
}

void RelayBuffer::passed_on(std::size_t used) {
  filled_ = used == size_;
  if (filled_ && size_ < kLargest) resize(size_ * 4);
  if (used <= size_ / 16 && size_ > kFirst) resize(size_ / 4);
}

Task<> relay_one_way(Stream& from, Stream& to, std::optional<FairShare::User> memory) {
  auto copied = co_await copy_one_way(from, to, memory);
  if (copied.ok()) co_return;
  from.close(Stream::Close::kReset);
  to.close(Stream::Close::kReset);
}

Task<> relay(Stream& a, Stream& b, std::optional<FairShare::User> memory) {
  using namespace async::asio::experimental::awaitable_operators;
  a.set_idle_limit(Steady::duration::zero());
  b.set_idle_limit(Steady::duration::zero());
  co_await (relay_one_way(a, b, memory) && relay_one_way(b, a, memory));
}

}  // namespace atl::net
