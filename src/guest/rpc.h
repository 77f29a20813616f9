// SPDX-License-Identifier: Apache-2.0
//
// The Connect protocol as the guest daemon serves it: reading calls, answering them, streaming events.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "async/event.h"
#include "async/scope.h"
#include "guest/json.h"
#include "http/server.h"

namespace atl::guest {

using async::Task;
using http::Exchange;

// Sends a whole answer, or the end of one. A client that has gone is nobody's failure, so there is no result.
Task<> respond(Exchange& exchange, http::ResponseHead head, std::string body);
Task<> finish(Exchange& exchange);
// {"code":404,"message":"…"} with that status: the error form of the REST calls.
Task<> respond_error(Exchange& exchange, const Error& error);
Task<> respond_error(Exchange& exchange, int status, std::string_view message);
Task<> respond_json(Exchange& exchange, int status, std::string json);

// Answers a unary call with JSON, or with the error's code and status.
Task<> respond_unary(Exchange& exchange, Result<std::string> answer);
// The message of a unary call.
Task<Result<boost::json::object>> read_unary(Exchange& exchange);
// The one message of a server-streaming call.
Task<Result<boost::json::object>> read_stream_request(Exchange& exchange);

// "user" of `Authorization: Basic base64("user:")`; empty when the header is absent, kUnauthenticated when
// malformed.
Result<std::string> basic_user(const http::Headers& headers);
// The client's Connect-Timeout-Ms, nullopt when absent or 0. kInvalid when malformed.
Result<std::optional<Millis>> call_timeout(const http::Headers& headers);
// Keepalive-Ping-Interval, or the default.
Steady::duration keepalive_interval(const http::Headers& headers);

// The answer of a streaming call. The head goes out with the first message.
class EventStream {
 public:
  // `keepalive` is the message of the service that says nothing. The text must be a literal.
  EventStream(Exchange& exchange, std::string_view keepalive);
  Task<Result<void>> send(std::string_view json);
  // The final frame. Returns when the answer is finished.
  Task<> end(std::optional<Error> error);
  // Sends the keepalive message; keepalive_due() says when it is time for it.
  Task<Result<void>> send_keepalive();
  Steady::time_point keepalive_due() const { return keepalive_due_; }

 private:
  Task<Result<void>> open();
  Exchange& exchange_;
  std::string_view keepalive_;
  Steady::duration interval_;
  Steady::time_point keepalive_due_;
};

// Notices that the client goes away while a call waits for something else. Call stop() before it is
// destroyed.
class ClientWatch {
 public:
  // `on_gone` runs on the loop, at most once.
  ClientWatch(async::Executor executor, Exchange& exchange, std::function<void()> on_gone);
  bool gone() const { return gone_; }
  const bool* flag() const { return &gone_; }
  Task<> stop();

 private:
  Task<> watch(Exchange& exchange);
  async::Scope scope_;
  std::function<void()> on_gone_;
  bool gone_ = false;
};

}  // namespace atl::guest
