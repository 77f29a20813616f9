// SPDX-License-Identifier: Apache-2.0
//
// HTTP/1.1 client: one request at a time on a connection, kept alive in a small pool.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "http/message.h"
#include "net/stream.h"

namespace atl::http {

using async::Task;

// One request on the wire and its answer. Dropping it before the answer is complete closes the connection;
// otherwise the connection goes back to the pool.
class ClientExchange {
 public:
  virtual ~ClientExchange() = default;
  // Sends request body bytes. After the last one call finish_body(). With content_length in the request head
  // exactly that many bytes are due; otherwise the body is chunked.
  virtual Task<Result<void>> write_body(std::string_view data) = 0;
  virtual Task<Result<void>> finish_body() = 0;
  // Fields that finish_body() sends after a body of unknown length.
  void set_trailers(Headers trailers) { request_trailers_ = std::move(trailers); }
  // The fields after the answer's body, once read_body() has given 0.
  const Headers& trailers() const { return trailers_; }
  // The answer's head. 1xx answers are skipped, except 101. May be called while the body is still being sent.
  virtual Task<Result<ResponseHead>> read_head() = 0;
  // Answer body bytes; 0 = complete and well framed. A connection that breaks gives kUnavailable.
  virtual Task<Result<std::size_t>> read_body(std::span<char> out) = 0;
  Task<Result<std::string>> read_all(std::size_t limit);
  // True when read_body() would not wait: then the first bytes can go on in one write with the head.
  virtual bool body_waiting() const { return false; }
  // Completes when read_body() would probably not wait, with the same errors and limit: for who wants to hold
  // no buffer meanwhile.
  virtual Task<Result<void>> wait_body() = 0;
  // After a 101 (or 200 to CONNECT): the raw stream, with bytes already received first.
  virtual net::StreamPtr take_stream() = 0;
  // Where the connection leads, "127.0.0.1:4711"; empty when there is none any more.
  virtual std::string peer() const = 0;
  virtual void close() = 0;
  virtual void set_idle_limit(Steady::duration limit) = 0;

 protected:
  Headers request_trailers_;
  Headers trailers_;
};

// Opens a new connection to the peer.
using Connector = std::function<Task<Result<net::StreamPtr>>()>;

// Asked right before a request's head goes out, on each connection that it is sent on: its failure is the
// request's, and nothing was sent then. It must be good as long as the exchange. Empty: yes.
using BeforeSend = std::function<Result<void>()>;

// Keeps at most `max_idle` idle connections to one peer. Use from one loop.
class Client : public std::enable_shared_from_this<Client> {
 public:
  virtual ~Client() = default;
  // Sends the head. `request.content_length` and `has_body` decide the framing; `authority` becomes Host.
  // A kept connection that turns out dead before any answer byte is replaced once, when the request has no
  // body and its method is idempotent: of all others the peer may have done the work already.
  virtual Task<Result<std::unique_ptr<ClientExchange>>> start(RequestHead request,
                                                              BeforeSend before_send = {}) = 0;
  virtual void close_idle() = 0;
};

// Bounds of what a peer may send, and of the connections kept to it.
struct ClientLimits {
  std::size_t head_bytes = 64 * 1024;
  std::size_t header_count = 128;
  std::size_t max_idle = 4;
  Steady::duration idle_timeout = std::chrono::seconds(60);  // of a kept connection
};
std::shared_ptr<Client> make_client(Connector connector, ClientLimits limits = {});

// Whole-message convenience: sends `body`, reads the answer with at most `limit` body bytes.
struct Answer {
  ResponseHead head;
  std::string body;
};
Task<Result<Answer>> fetch(std::shared_ptr<Client> client, RequestHead request, std::string body,
                           std::size_t limit);

}  // namespace atl::http
