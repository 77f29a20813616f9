// SPDX-License-Identifier: Apache-2.0
//
// One HTTP/1.1 connection of the server, and one exchange on it. Used by serve_http1() only.
#pragma once

#include <optional>

#include "async/event.h"
#include "http/body_reader.h"
#include "http/server.h"

namespace atl::http {

// Reads request after request from its stream and runs the handler for each.
class Http1Connection {
 public:
  Http1Connection(net::StreamPtr stream, std::string_view prefix, bool secure, const ServerLimits& limits,
                  const Handler& handler, Drain* drain);
  ~Http1Connection();
  Http1Connection(const Http1Connection&) = delete;
  Http1Connection& operator=(const Http1Connection&) = delete;

  Task<> run();

 private:
  friend class Http1Exchange;
  // The next request; nullopt when the connection is done, after whatever answer was due.
  Task<std::optional<ParsedRequest>> next_request();
  // Receives more of a head. False when the connection is done.
  Task<bool> receive_head_bytes();
  // Runs the handler and completes the exchange. False when the connection cannot be used any more.
  Task<bool> serve(ParsedRequest request);
  Task<> refuse(Refusal refusal);
  // Keeps reading for a moment after the last answer: closing with unread bytes would send RST, and that can
  // destroy the answer before the client has read it (RFC 9112 §9.6).
  Task<> linger();
  HeadLimits head_limits() const { return {limits_.head_bytes, limits_.header_count, limits_.target_bytes}; }
  bool draining() const { return drain_ != nullptr && drain_->requested(); }

  net::StreamPtr stream_;  // null after an upgrade
  InputBuffer in_;
  bool secure_;
  const ServerLimits& limits_;
  const Handler& handler_;
  Drain* drain_;
  bool idle_ = false;  // waits for the first byte of a request
  Steady::time_point head_started_;
};

// One request of the connection; at most one exists at a time.
class Http1Exchange final : public Exchange {
 public:
  Http1Exchange(Http1Connection& connection, ParsedRequest request);

  Task<Result<std::size_t>> read_body(std::span<char> out) override;
  Task<Result<void>> send_head(ResponseHead head) override;
  Task<Result<void>> send_head_and(ResponseHead head, std::string_view first) override;
  Task<Result<void>> write(std::string_view data) override;
  Task<Result<void>> finish() override;
  void abort() override;
  Task<> wait_client_gone() override;
  Task<bool> refused(Steady::duration limit) override;
  Task<Result<net::StreamPtr>> upgrade(ResponseHead head) override;
  void set_idle_limit(Steady::duration limit) override;

  bool complete() const { return finished_; }
  bool gone() const { return aborted_ || upgraded_; }
  bool keep_alive() const { return keep_alive_ && !gone(); }
  bool body_read() const { return body_.done(); }
  // Reads what is left of a small request body, so that the connection can be used again. False when it is
  // too much.
  Task<bool> discard_body();

 private:
  Result<std::string> make_head(ResponseHead head);
  Result<void> count_body(std::size_t size);
  Task<Result<void>> send_continue();
  Task<> wait_continue_sent();

  Http1Connection& connection_;
  BodyReader body_;
  bool keep_alive_;
  bool expects_continue_;
  bool sends_body_ = true;  // false for HEAD, 204 and 304
  bool chunked_ = false;
  bool finished_ = false;
  bool aborted_ = false;
  bool upgraded_ = false;
  std::optional<std::uint64_t> due_;        // body bytes still to be written, when the length was given
  std::optional<async::Event> continuing_;  // "100 Continue" is being written by the reading task
};

}  // namespace atl::http
