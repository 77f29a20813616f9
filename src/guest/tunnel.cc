// SPDX-License-Identifier: Apache-2.0
#include "guest/tunnel.h"

#include <array>

#include "base/text.h"
#include "net/tcp.h"

namespace atl::guest {
namespace {

constexpr std::size_t kTunnelBuffer = 16 * 1024;
constexpr auto kConnectTimeout = std::chrono::seconds(5);

Task<Result<net::StreamPtr>> connect_loopback(std::uint16_t port) {
  net::ConnectOptions options;
  options.timeout = kConnectTimeout;
  net::Endpoint endpoint{"127.0.0.1", port};
  auto stream = co_await net::connect_tcp(endpoint, options);
  if (stream.ok()) co_return stream;
  endpoint.address = "::1";
  auto second = co_await net::connect_tcp(endpoint, options);
  if (second.ok()) co_return second;
  co_return stream;
}

// Passes bytes one way. A clean end is passed on; anything else breaks both sides.
Task<> pass(net::Stream& from, net::Stream& to) {
  std::string buffer(kTunnelBuffer, '\0');
  for (;;) {
    auto got = co_await from.read_some(buffer);
    if (!got.ok()) break;
    if (*got == 0) {
      auto ended = co_await to.shutdown_write();
      if (ended.ok()) co_return;
      break;
    }
    auto written = co_await to.write_all(std::string_view(buffer).substr(0, *got));
    if (!written.ok()) break;
  }
  from.close(net::Stream::Close::kReset);
  to.close(net::Stream::Close::kReset);
}

}  // namespace

Result<std::uint16_t> parse_tunnel_target(std::string_view authority) {
  std::size_t colon = authority.rfind(':');
  std::string_view host = authority.substr(0, colon);
  auto port = colon == std::string_view::npos ? std::nullopt
                                              : parse_number<std::uint16_t>(authority.substr(colon + 1));
  if (!port || *port == 0 || (host != "127.0.0.1" && host != "localhost"))
    return make_error(Code::kInvalid, "CONNECT target '{}' is not 127.0.0.1:PORT", printable(authority));
  return *port;
}

Task<> serve_tunnel(async::Executor executor, Exchange& exchange) {
  auto port = parse_tunnel_target(exchange.request().target);
  if (!port.ok()) {
    co_await respond_error(exchange, port.error());
    co_return;
  }
  auto inner = co_await connect_loopback(*port);
  if (!inner.ok()) {
    std::string message = fmt::format("nobody listens on port {}: {}", *port, inner.error().message());
    co_await respond_error(exchange, 502, message);
    co_return;
  }
  http::ResponseHead head;
  auto outer = co_await exchange.upgrade(std::move(head));
  if (!outer.ok()) co_return;
  async::Scope scope(executor);
  scope.spawn("tunnel up", pass(**outer, **inner));
  scope.spawn("tunnel down", pass(**inner, **outer));
  co_await scope.join();
}

}  // namespace atl::guest
