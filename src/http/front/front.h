// SPDX-License-Identifier: Apache-2.0
//
// The front of a program that serves HTTP: one port for plain HTTP/1.1, plain HTTP/2 and TLS, told apart by
// the first bytes, with bounds on connections and an orderly end.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "async/scope.h"
#include "http/server.h"
#include "net/tcp.h"
#include "net/tls/tls.h"

namespace atl::http {

// What one port speaks. At least one of the two must be there.
struct FrontProtocols {
  std::shared_ptr<net::TlsServerContext> tls;  // null: no TLS
  bool plain = true;                           // HTTP without TLS
};

// Serves whatever the peer speaks, until the connection ends. A peer that speaks plain HTTP where only TLS is
// allowed is told so; everything else that is not allowed is closed without a word.
Task<> serve_connection(net::StreamPtr stream, FrontProtocols protocols, const ServerLimits& limits,
                        const Handler& handler, Drain* drain = nullptr);

// What a server speaks and how much of it.
struct ServerOptions {
  ServerLimits limits;
  FrontProtocols protocols;
  std::size_t connections_per_peer = 4096;  // from one address
};

// Accepts on one listener and serves each connection. Use from the listener's loop; stop() must have
// completed before the server is destroyed.
class Server {
 public:
  Server(async::Executor executor, std::unique_ptr<net::Listener> listener, ServerOptions options,
         Handler handler);

  void start();
  // Accepts no more, ends idle connections, lets running exchanges finish for `grace`, then cancels what is
  // left.
  Task<> stop(Steady::duration grace);
  std::uint16_t port() const { return listener_->port(); }
  std::size_t connections() const { return connections_.size(); }

 private:
  struct Connection {
    std::string address;
    Drain drain;
  };
  using ConnectionRef = std::shared_ptr<Connection>;

  Task<> accept_loop();
  void admit(net::StreamPtr stream);
  Task<> serve(net::StreamPtr stream, ConnectionRef connection);
  Task<> serve_busy(net::StreamPtr stream);
  void forget(const ConnectionRef& connection);

  std::unique_ptr<net::Listener> listener_;
  ServerOptions options_;
  Handler handler_;
  Handler busy_handler_;
  ServerLimits busy_limits_;
  std::map<Connection*, ConnectionRef> connections_;
  std::map<std::string, std::size_t> per_address_;
  std::size_t busy_ = 0;  // connections that are only told to come back later
  async::Event ended_;    // a connection has ended
  async::Scope accepting_;
  async::Scope serving_;
};

}  // namespace atl::http
