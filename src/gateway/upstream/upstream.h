// SPDX-License-Identifier: Apache-2.0
//
// Upstream: requests of sandboxes to the world, over connections that are kept and used again.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <string>

#include "async/scope.h"
#include "gateway/upstream/dial.h"
#include "http/client.h"

namespace atl::gateway {

// Connections are kept by sandbox, authority, credential, certificate, trust and proxy: nothing of one
// sandbox ever travels on a connection that another one has used (decision 0120). Use from one loop.
class Upstream {
 public:
  static constexpr std::size_t kMaxOrigins = 4096;           // of all sandboxes, used and idle
  static constexpr std::size_t kMaxOriginsPerSandbox = 128;  // the longest unused one goes first
  static constexpr std::size_t kMaxIdle = 64;                // idle HTTP/1.1 connections of one origin
  static constexpr auto kIdleTimeout = std::chrono::seconds(60);

  Upstream(async::Executor executor, std::shared_ptr<Resolver> resolver,
           std::shared_ptr<net::TlsClientContext> tls);
  Upstream(const Upstream&) = delete;
  Upstream& operator=(const Upstream&) = delete;
  ~Upstream();

  // Sends a request's head (made by hygiene.h), over HTTP/2 where route and peer agree on it and the request
  // is no upgrade. The exchange keeps to the route's limits. Dropping it before the answer's end tells the
  // peer. Repeats by itself only what the peer has surely not acted on, and what is idempotent and met the
  // end of a kept connection; never a request of whose body a byte was taken.
  Task<Result<std::unique_ptr<http::ClientExchange>>> start(Route route, http::RequestHead request);
  // A new raw connection, with TLS when the route says so: for tunnels and streams that are not HTTP.
  Task<Result<net::StreamPtr>> connect(Route route);

  // Closes the idle connections of a sandbox, where Route::sandbox is its id or begins with that and a slash;
  // those in use end with their exchange.
  void forget(const std::string& id);
  std::size_t origins() const { return origins_.size(); }
  // Ends everything; await it before destroying.
  Task<> shut_down();

 private:
  struct Origin;
  using OriginPtr = std::shared_ptr<Origin>;

  OriginPtr origin_of(Route route);
  void forget_from(const std::string& prefix);
  void make_room(const std::string& sandbox);
  Task<Result<std::unique_ptr<http::ClientExchange>>> start_once(OriginPtr origin, http::RequestHead request,
                                                                 http::BeforeSend before);
  Task<Result<void>> settle_protocol(OriginPtr origin);
  Task<Result<net::StreamPtr>> connect_http1(OriginPtr origin);
  static http::BeforeSend take_question(Route& route);
  Task<Result<net::TlsClientContext::Connected>> open(Route route, net::Http2 h2);

  async::Executor executor_;
  std::shared_ptr<Resolver> resolver_;
  std::shared_ptr<net::TlsClientContext> tls_;
  std::map<std::string, OriginPtr> origins_;  // keys begin with the sandbox
  std::uint64_t clock_ = 0;                   // counts uses
  async::Scope scope_;                        // the loops of HTTP/2 connections
};

// The status with which a failure of an upstream is told to a client: 403 for an address that may not be
// dialled, 502 for a peer that is not there, not who it says, or breaks the protocol, 504 for a time limit,
// and what http_status() says for the rest.
int upstream_status(const Error& error);

}  // namespace atl::gateway
