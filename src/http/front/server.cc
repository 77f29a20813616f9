// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "http/front/front.h"

namespace atl::http {

namespace asio = async::asio;

namespace {
constexpr std::size_t kMaxBusy = 64;
constexpr auto kBusyHeadTimeout = std::chrono::seconds(1);
// After an error of accept() that will not pass by itself.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

Task<> answer_busy(Exchange& exchange) {
  ResponseHead head{.status = 503};
  head.headers.add("content-type", "application/json");
  head.headers.add("retry-after", "1");
  head.headers.add("connection", "close");
  (void)co_await exchange.respond(std::move(head),
                                  error_body(503, "too many connections; try again in a moment"));
}

std::string address_of(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }
}  // namespace

Server::Server(async::Executor executor, std::unique_ptr<net::Listener> listener, ServerOptions options,
               Handler handler)
    : listener_(std::move(listener)),
      options_(std::move(options)),
      handler_(std::move(handler)),
      busy_handler_(answer_busy),
      busy_limits_(options_.limits),
      ended_(executor),
      accepting_(executor),
      serving_(executor) {
  busy_limits_.head_timeout = kBusyHeadTimeout;
  busy_limits_.idle_timeout = kBusyHeadTimeout;
  busy_limits_.body_idle = kBusyHeadTimeout;
}

void Server::start() { accepting_.spawn("accept", accept_loop()); }

Task<> Server::accept_loop() {
  for (;;) {
    auto stream = co_await listener_->accept();
    if (stream.ok()) {
      admit(*std::move(stream));
      continue;
    }
    if (stream.error().code() == Code::kCancelled) co_return;
    log::error("cannot accept connections", {{"reason", stream.error().message()}});
    co_await async::sleep_for(kAcceptPause);
  }
}

void Server::admit(net::StreamPtr stream) {
  auto address = address_of(stream->peer());
  auto of_address = per_address_.find(address);
  bool full = connections_.size() >= options_.limits.connections ||
              (of_address != per_address_.end() && of_address->second >= options_.connections_per_peer);
  if (full) {
    if (busy_ >= kMaxBusy) return stream->close(net::Stream::Close::kReset);
    ++busy_;
    serving_.spawn("refuse connection", serve_busy(std::move(stream)));
    return;
  }
  auto connection = std::make_shared<Connection>();
  connection->address = std::move(address);
  ++per_address_[connection->address];
  connections_.emplace(connection.get(), connection);
  serving_.spawn("connection", serve(std::move(stream), std::move(connection)));
}

Task<> Server::serve(net::StreamPtr stream, ConnectionRef connection) {
  struct Forget {
    Server& server;
    const ConnectionRef& connection;
    ~Forget() { server.forget(connection); }
  };
  Forget guard{*this, connection};
  auto protocols = options_.protocols;
  co_await serve_connection(std::move(stream), std::move(protocols), options_.limits, handler_,
                            &connection->drain);
}

Task<> Server::serve_busy(net::StreamPtr stream) {
  struct Leave {
    std::size_t& count;
    ~Leave() { --count; }
  };
  Leave guard{busy_};
  auto protocols = options_.protocols;
  co_await serve_connection(std::move(stream), std::move(protocols), busy_limits_, busy_handler_);
}

void Server::forget(const ConnectionRef& connection) {
  auto of_address = per_address_.find(connection->address);
  if (--of_address->second == 0) per_address_.erase(of_address);
  connections_.erase(connection.get());
  ended_.notify_all();
}

Task<> Server::stop(Steady::duration grace) {
  co_await async::shield();
  listener_->close();
  accepting_.cancel();
  co_await accepting_.join();
  auto deadline = Steady::now() + grace;
  // A drain may end a connection at once, which changes the map.
  auto snapshot = connections_;
  for (auto& [key, connection] : snapshot) connection->drain.request();
  snapshot.clear();
  while (!connections_.empty() && co_await ended_.wait_until(deadline)) {}
  serving_.cancel();
  co_await serving_.join();
}

}  // namespace atl::http
