// SPDX-License-Identifier: Apache-2.0
#include "apps/control/server.h"

#include "async/within.h"
#include "base/log.h"
#include "http/h2/server.h"

namespace atl::control_app {
namespace {

constexpr char kTlsHandshake = 0x16;  // ContentType handshake, RFC 8446 section 5.1; no method of HTTP begins so
constexpr std::size_t kFirstRead = 4096;

}  // namespace

Result<std::uint16_t> Server::listen(const net::Endpoint& endpoint, PlainHttp plain) {
  auto listening = std::make_unique<Listening>();
  TRY(listening->listener, net::listen_tcp(executor_, endpoint));
  listening->plain = plain;
  std::uint16_t port = listening->listener->port();
  listening_.push_back(std::move(listening));
  return port;
}

void Server::start() {
  for (auto& listening : listening_) scope_.spawn("accept", accept_loop(listening.get()));
}

Task<> Server::stop(Steady::duration limit) {
  stopping_ = true;
  for (auto& listening : listening_) listening->listener->close();
  for (http::Drain* drain : std::set<http::Drain*>(open_)) drain->request();
  auto deadline = Steady::now() + limit;
  while (scope_.size() > 0 && Steady::now() < deadline) co_await async::sleep_for(std::chrono::milliseconds(10));
  scope_.cancel();
  co_await scope_.join();
}

Task<> Server::accept_loop(Listening* listening) {
  while (!stopping_) {
    auto stream = co_await listening->listener->accept();
    if (!stream) co_return;
    if (open_.size() >= limits_.connections) continue;  // dropping it closes it
    scope_.spawn("connection", serve(std::move(*stream), listening->plain));
  }
}

Task<> Server::serve(net::StreamPtr stream, PlainHttp plain) {
  http::Drain drain;
  open_.insert(&drain);
  struct Leave {
    ~Leave() { set.erase(drain); }
    std::set<http::Drain*>& set;
    http::Drain* drain;
  } leave{open_, &drain};
  std::string first(kFirstRead, '\0');
  stream->set_idle_limit(limits_.head_timeout);
  auto read = co_await stream->read_some(std::span<char>(first.data(), first.size()));
  if (!read || *read == 0) co_return;
  first.resize(*read);
  if (first.front() == kTlsHandshake) {
    co_await serve_tls(std::move(stream), std::move(first), drain);
  } else if (plain == PlainHttp::kServed) {
    co_await http::serve_http1(std::move(stream), std::move(first), false, limits_, handler_, &drain);
  } else {
    (void)co_await stream->write_all("HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-type: application/json\r\n\r\n",
                                     http::error_body(403, "plain HTTP is not served here; use https"));
  }
}

Task<> Server::serve_tls(net::StreamPtr stream, std::string prefix, http::Drain& drain) {
  auto tls = tls_;
  auto accepted = co_await tls->accept(std::move(stream), std::move(prefix), limits_.head_timeout);
  if (!accepted) {
    log::debug("TLS handshake failed", {{"what", accepted.error().message()}});
    co_return;
  }
  if (accepted->protocol == "h2") {
    co_await http::serve_http2(std::move(accepted->stream), std::string(), true, limits_, handler_, &drain);
  } else {
    co_await http::serve_http1(std::move(accepted->stream), std::string(), true, limits_, handler_, &drain);
  }
}

}  // namespace atl::control_app
