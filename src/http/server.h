// SPDX-License-Identifier: Apache-2.0
//
// HTTP server: drives HTTP/1.1 (and, through http/h2, HTTP/2) over streams and calls a handler per request.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "async/scope.h"
#include "base/fair_share.h"
#include "http/message.h"
#include "net/stream.h"

namespace atl::http {

using async::Task;

// Bounds of one server. Each refusal has its status: 431 for heads, 413 for bodies read whole, 408 for slow
// heads.
struct ServerLimits {
  std::size_t head_bytes = 64 * 1024;
  std::size_t header_count = 128;
  std::size_t target_bytes = 16 * 1024;
  Steady::duration head_timeout = std::chrono::seconds(15);   // first byte to end of head
  Steady::duration idle_timeout = std::chrono::seconds(620);  // between requests on a kept connection
  Steady::duration body_idle = std::chrono::seconds(60);      // no progress while a body is read or written
  std::size_t connections = 8192;                             // per server
  std::size_t h2_streams = 256;                               // concurrent, per connection
  std::size_t h2_window = 4 * 1024 * 1024;                    // of a connection, bytes
  std::optional<FairShare::User> memory =
      {};  // whose the bodies of HTTP/2 take; nullopt: each connection's own
};

// One request and its answer. Lives as long as the handler's task. Use from the connection's loop.
class Exchange {
 public:
  virtual ~Exchange() = default;
  const RequestHead& request() const { return request_; }
  RequestHead& request() { return request_; }

  // Reads request body bytes; 0 = complete. A broken or ambiguous body gives kInvalid, a lost peer
  // kCancelled.
  virtual Task<Result<std::size_t>> read_body(std::span<char> out) = 0;
  // The whole body, at most `limit` bytes (kTooLarge beyond).
  Task<Result<std::string>> read_all(std::size_t limit);

  // Sends the head. Without content-length the body is chunked (HTTP/1.1), or ends with the connection (1.0).
  virtual Task<Result<void>> send_head(ResponseHead head) = 0;
  // The same with the first bytes of the body, in one write.
  virtual Task<Result<void>> send_head_and(ResponseHead head, std::string_view first);
  // Sends body bytes at once; waits while the peer is slow (back-pressure).
  virtual Task<Result<void>> write(std::string_view data) = 0;
  // Ends the body cleanly.
  virtual Task<Result<void>> finish() = 0;
  // The fields after the request's body, once read_body() has given 0.
  const Headers& request_trailers() const { return request_trailers_; }
  // Fields that finish() sends after the body where its framing has a place for them: chunked, or HTTP/2 when
  // they are set before the last write of a body of known length. Elsewhere they are dropped.
  void set_trailers(Headers trailers) { trailers_ = std::move(trailers); }
  // Head and body in one write. For HEAD requests the body is not sent.
  Task<Result<void>> respond(ResponseHead head, std::string body);
  // Breaks the answer off: the client sees a broken connection (HTTP/1) or RST_STREAM (HTTP/2), never a clean
  // end.
  virtual void abort() = 0;
  // Completes when the client has gone away, or the exchange is over. For streams that are idle.
  virtual Task<> wait_client_gone() = 0;
  // After the answer: true when the client has gone without reading it. Waits, for at most `limit`, only when
  // the client has finished sending.
  virtual Task<bool> refused(Steady::duration limit) {
    (void)limit;
    co_return false;
  }
  // Turns the connection into a raw stream: writes `head` (101, or 200 for CONNECT) and hands over the
  // stream, with bytes already received first. Only HTTP/1.1; kUnsupported otherwise.
  virtual Task<Result<net::StreamPtr>> upgrade(ResponseHead head) = 0;
  // Lifts or sets the no-progress limit of this exchange (zero: none).
  virtual void set_idle_limit(Steady::duration limit) = 0;

  bool head_sent() const { return head_sent_; }

 protected:
  RequestHead request_;
  Headers request_trailers_;
  Headers trailers_;
  bool head_sent_ = false;
};

// Answers one request. If it returns without having sent a head, the client gets 500; if it returns with the
// body unfinished, the answer is aborted.
using Handler = std::function<Task<>(Exchange&)>;

// Lets the owner of a connection ask it to end: at once when it is idle, else after the exchanges that are
// running. Outlives the connection's task.
class Drain {
 public:
  void request() {
    requested_ = true;
    if (wake_) wake_();
  }
  bool requested() const { return requested_; }
  // For the connection: what to do when the request comes.
  void on_request(std::function<void()> wake) { wake_ = std::move(wake); }

 private:
  bool requested_ = false;
  std::function<void()> wake_;
};

// The body of an answer that the server gives without a handler: {"code":400,"message":"…"}.
std::string error_body(int status, std::string_view message);

// Serves HTTP/1.1 on `stream` until the connection ends. `prefix` = bytes already read. `secure` marks
// requests.
Task<> serve_http1(net::StreamPtr stream, std::string prefix, bool secure, const ServerLimits& limits,
                   const Handler& handler, Drain* drain = nullptr);

}  // namespace atl::http
