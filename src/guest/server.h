// SPDX-License-Identifier: Apache-2.0
//
// The guest daemon's HTTP server: which request goes where, and who may send it.
#pragma once

#include <memory>

#include "async/scope.h"
#include "guest/metrics.h"
#include "guest/state.h"
#include "http/server.h"
#include "net/tcp.h"

namespace atl::guest {

// One request and its answer.
using http::Exchange;

// One daemon. Use from its loop only.
class Server {
 public:
  Server(async::Executor executor, Options options);

  // Serves connections until the listener is closed.
  Task<> run(std::unique_ptr<net::Listener> listener);
  // Ends connections, processes and watchers; for tests and an orderly end.
  Task<> shut_down();
  Guest& guest() { return guest_; }

 private:
  Task<> handle(Exchange& exchange);
  Task<> serve_connection(net::StreamPtr stream);
  Task<bool> serve_internal(Exchange& exchange, std::string_view path);
  Task<bool> serve_open(Exchange& exchange, std::string_view path);
  Task<> serve_files(Exchange& exchange);
  Task<> trim_when_quiet();

  async::Executor executor_;
  Guest guest_;
  Metrics metrics_;
  http::ServerLimits limits_;
  http::Handler handler_;
  async::Scope connections_;
  net::Listener* listener_ = nullptr;
  async::Event activity_;
  bool active_ = false;
};

}  // namespace atl::guest
