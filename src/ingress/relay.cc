// SPDX-License-Identifier: Apache-2.0
#include "ingress/relay.h"

#include <boost/asio/experimental/awaitable_operators.hpp>

namespace atl::ingress {
namespace {

Task<Result<void>> copy_one_way(net::Stream& from, net::Stream& to) {
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

Task<> copy_or_break(net::Stream& from, net::Stream& to) {
  auto copied = co_await copy_one_way(from, to);
  if (copied.ok()) co_return;
  from.close(net::Stream::Close::kReset);
  to.close(net::Stream::Close::kReset);
}

}  // namespace

void RelayBuffer::passed_on(std::size_t used) {
  if (used < size_ || size_ >= kLargest) return;
  size_ *= 4;
  bytes_ = std::make_unique_for_overwrite<char[]>(size_);
}

Task<> relay_request_body(Flow& flow) {
  RelayBuffer buffer;
  while (true) {
    auto got = co_await flow.exchange.read_body(buffer.space());
    if (!got) {
      flow.body_broken = got.error().code() == Code::kInvalid;
      flow.client_gone = !flow.body_broken;
      flow.drop_guest();
      co_return;
    }
    // A guest that stops reading may still answer (413): the answer's side decides what happens.
    if (*got == 0) {
      (void)co_await flow.upstream->finish_body();
      co_return;
    }
    auto sent = co_await flow.upstream->write_body(buffer.view(*got));
    if (!sent) co_return;
    buffer.passed_on(*got);
  }
}

Task<> relay_response_body(Flow& flow) {
  RelayBuffer buffer;
  while (true) {
    auto got = co_await flow.upstream->read_body(buffer.space());
    if (!got || flow.sandbox_gone) {
      flow.exchange.abort();
      co_return;
    }
    if (*got == 0) {
      flow.answered = true;
      (void)co_await flow.exchange.finish();
      co_return;
    }
    auto sent = co_await flow.exchange.write(buffer.view(*got));
    if (!sent) {
      flow.drop_guest();
      co_return;
    }
    buffer.passed_on(*got);
  }
}

Task<> relay_raw(Flow& flow, net::Stream& client, net::Stream& guest) {
  using namespace async::asio::experimental::awaitable_operators;
  flow.raw_client = &client;
  flow.raw_guest = &guest;
  client.set_idle_limit(Steady::duration::zero());
  guest.set_idle_limit(Steady::duration::zero());
  co_await (copy_or_break(client, guest) && copy_or_break(guest, client));
  flow.raw_client = nullptr;
  flow.raw_guest = nullptr;
}

}  // namespace atl::ingress
