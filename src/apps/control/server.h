// SPDX-License-Identifier: Apache-2.0
//
// Server: accepts connections, tells TLS from plain HTTP by the first byte, and serves them with one handler.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "async/scope.h"
#include "http/server.h"
#include "net/tcp.h"
#include "net/tls/tls.h"

namespace atl::control_app {

using async::Task;

class Server {
 public:
  Server(async::Executor executor, http::Handler handler, http::ServerLimits limits)
      : executor_(executor), scope_(executor), handler_(std::move(handler)), limits_(limits) {}

  enum class PlainHttp : bool { kRefused, kServed };
  // Starts to listen. The socket is bound at once, connections wait until start().
  Result<std::uint16_t> listen(const net::Endpoint& endpoint, PlainHttp plain);
  void set_tls(std::shared_ptr<net::TlsServerContext> tls) { tls_ = std::move(tls); }
  void start();
  // No new connections; those that there are end after their exchange, or when `limit` has passed.
  Task<> stop(Steady::duration limit);

 private:
  struct Listening {
    std::unique_ptr<net::Listener> listener;
    PlainHttp plain;
  };
  Task<> accept_loop(Listening* listening);
  Task<> serve(net::StreamPtr stream, PlainHttp plain);
  Task<> serve_tls(net::StreamPtr stream, std::string prefix, http::Drain& drain);

  async::Executor executor_;
  async::Scope scope_;
  http::Handler handler_;
  http::ServerLimits limits_;
  std::shared_ptr<net::TlsServerContext> tls_;
  std::vector<std::unique_ptr<Listening>> listening_;
  std::set<http::Drain*> open_;  // at most limits_.connections
  bool stopping_ = false;
};

}  // namespace atl::control_app
