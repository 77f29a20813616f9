// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/websocket.h"

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "base/memory.h"
#include "net/relay.h"

namespace atl::gateway {
namespace {

using async::Task;

Task<Result<void>> pass_searched(net::Stream& server, net::Stream& client, WebSocketSearch& search,
                                 const FairShare::User& memory) {
  net::RelayBuffer buffer(memory);
  std::string out;
  while (true) {
    if (!buffer.filled()) {
      buffer.release();
      free_text(out);
      CO_TRY_VOID(co_await server.wait_readable());
    }
    CO_TRY(std::size_t got, co_await server.read_some(buffer.space()));
    if (got == 0) break;
    out.clear();
    CO_TRY_VOID(search.feed(buffer.view(got), out));
    CO_TRY_VOID(co_await client.write_all(out));
    buffer.passed_on(got);
  }
  CO_TRY_VOID(co_await client.shutdown_write());
  server.set_idle_limit(net::kHalfOpenIdle);
  client.set_idle_limit(net::kHalfOpenIdle);
  co_return success();
}

Task<> answers(net::Stream& server, net::Stream& client, std::shared_ptr<const SecretPatterns> patterns,
               FairShare::User memory, std::size_t& incidents) {
  WebSocketSearch search(std::move(patterns));
  auto passed = co_await pass_searched(server, client, search, memory);
  incidents = search.incidents();
  if (passed.ok()) co_return;
  server.close(net::Stream::Close::kReset);
  client.close(net::Stream::Close::kReset);
}

}  // namespace

Task<> relay_websocket(net::Stream& client, net::Stream& server,
                       std::shared_ptr<const SecretPatterns> patterns, FairShare::User memory,
                       std::size_t& incidents) {
  using namespace async::asio::experimental::awaitable_operators;
  client.set_idle_limit(Steady::duration::zero());
  server.set_idle_limit(Steady::duration::zero());
  co_await (net::relay_one_way(client, server, memory) &&
            answers(server, client, std::move(patterns), memory, incidents));
}

}  // namespace atl::gateway
