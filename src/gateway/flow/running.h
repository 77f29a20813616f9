// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gateway/flow/asking.h"
#include "gateway/flow/http_flow.h"

namespace atl::gateway {

// What is told to a request whose sandbox is in `state`.
Error not_running(std::string_view state);

// One request on its way, with everything that must be broken off when its sandbox may no longer send.
struct HttpFlow::Running {
  Running(http::Exchange& e, Inbound i)
      : exchange(e), in(std::move(i)), judged(as_sent(e.request().headers)) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void cut() {
    if (held) return held->notify_all();  // it looks for itself what the rules of now say
    was_cut = true;
    if (upstream) upstream->close();
    if (raw_client) raw_client->close(net::Stream::Close::kReset);
    if (raw_server) raw_server->close(net::Stream::Close::kReset);
    if (exchange.head_sent() && !answered) exchange.abort();
  }

  http::Exchange& exchange;
  Inbound in;
  http::Headers judged;                             // what rules see
  http::RequestHead named;                          // as it came, with its authority made canonical
  http::RequestHead request;                        // as it goes out
  std::optional<HeldBody> body;                     // when it had to be read before
  std::shared_ptr<const policy::Policy> judged_by;  // that let it through; null before
  policy::RequestDecision decision;                 // by which the head was made
  Ingredients ingredients;
  SendRules sending;
  Injection injection;
  std::unique_ptr<http::ClientExchange> upstream;
  std::optional<http::ResponseHead> switching;  // the upstream's 101
  net::Stream* raw_client = nullptr;
  net::Stream* raw_server = nullptr;
  bool answered = false;
  bool was_cut = false;
  async::Event* held = nullptr;     // while it waits for a person
  Approvals::RowPtr grant;          // of a person, where one was asked
  std::optional<Error> unsendable;  // why the body could not be sent
};

}  // namespace atl::gateway
