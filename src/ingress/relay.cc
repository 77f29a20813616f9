// SPDX-License-Identifier: Apache-2.0
#include "ingress/relay.h"

#include "net/relay.h"

namespace atl::ingress {

Task<> relay_request_body(Flow& flow) {
  net::RelayBuffer buffer;
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
  net::RelayBuffer buffer;
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
  flow.raw_client = &client;
  flow.raw_guest = &guest;
  co_await net::relay(client, guest);
  flow.raw_client = nullptr;
  flow.raw_guest = nullptr;
}

}  // namespace atl::ingress
