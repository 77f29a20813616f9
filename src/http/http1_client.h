// SPDX-License-Identifier: Apache-2.0
//
// The parts behind make_client(): the pool, and one exchange on one of its connections.
#pragma once

#include <deque>

#include "http/body_reader.h"
#include "http/client.h"

namespace atl::http {

// A connection to the peer and the bytes received on it but not used yet.
struct ClientConnection {
  net::StreamPtr stream;
  InputBuffer in;
  Steady::time_point idle_since;
  bool reused = false;  // has carried an exchange before
};

// The pool of kept connections. Exchanges hold it alive.
class Http1Client final : public Client {
 public:
  Http1Client(Connector connector, ClientLimits limits) : connector_(std::move(connector)), limits_(limits) {}
  Task<Result<std::unique_ptr<ClientExchange>>> start(RequestHead request, BeforeSend before_send) override;
  void close_idle() override;

  Task<Result<std::unique_ptr<ClientConnection>>> connect();
  // Takes a connection back for the next exchange.
  void release(std::unique_ptr<ClientConnection> connection);
  const ClientLimits& limits() const { return limits_; }

 private:
  // The youngest kept connection that is still good; null when there is none.
  std::unique_ptr<ClientConnection> take_kept();
  void drop_expired();
  void watch_expiry();

  Connector connector_;
  ClientLimits limits_;
  std::deque<std::unique_ptr<ClientConnection>> kept_;  // oldest first
  std::optional<async::asio::steady_timer> expiry_;
  bool expiry_watched_ = false;
};

// One request and its answer on a connection that it owns until the end.
class Http1ClientExchange final : public ClientExchange {
 public:
  Http1ClientExchange(std::shared_ptr<Http1Client> client, std::unique_ptr<ClientConnection> connection,
                      const RequestHead& request, std::string head, BeforeSend before_send);
  ~Http1ClientExchange() override;

  Task<Result<void>> send_request_head();
  Result<void> may_send() const { return before_send_ ? before_send_() : success(); }
  Task<Result<void>> write_body(std::string_view data) override;
  Task<Result<void>> finish_body() override;
  Task<Result<ResponseHead>> read_head() override;
  Task<Result<std::size_t>> read_body(std::span<char> out) override;
  bool body_waiting() const override { return connection_ && head_read_ && body_.waiting(connection_->in); }
  Task<Result<void>> wait_body() override;
  net::StreamPtr take_stream() override;
  std::string peer() const override { return connection_ ? connection_->stream->peer() : std::string(); }
  void close() override;
  void set_idle_limit(Steady::duration limit) override;

 private:
  // One head from the wire, also a 1xx.
  Task<Result<ParsedResponse>> read_one_head();
  Task<Result<void>> receive_head_bytes();
  // Repeats the request on a new connection, if that is safe.
  Task<Result<void>> replace_connection(Error reason);
  bool complete() const { return head_read_ && body_.done() && request_complete_; }

  std::shared_ptr<Http1Client> client_;
  std::unique_ptr<ClientConnection> connection_;  // null after take_stream()
  std::string method_;
  std::string head_;  // the request head as sent; kept while it may have to be sent again
  BeforeSend before_send_;
  bool wants_upgrade_;
  bool has_body_;
  std::optional<std::uint64_t> due_;
  bool request_complete_;
  bool replaced_ = false;
  bool closed_ = false;    // by close(); also while a new connection is being made
  bool answered_ = false;  // a byte of an answer has arrived
  bool head_read_ = false;
  bool keep_alive_ = false;
  bool upgraded_ = false;
  Steady::duration idle_limit_{};
  std::size_t head_bytes_ = 0;  // of all heads of this exchange
  BodyReader body_;
};

}  // namespace atl::http
