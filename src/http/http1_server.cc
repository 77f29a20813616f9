// SPDX-License-Identifier: Apache-2.0
#include "http/http1_server.h"

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"

namespace atl::http {

namespace asio = async::asio;

namespace {
// A client that is in the middle of a large upload must get to the answer: clients drop what they have
// received when their writing fails.
constexpr auto kLingerTime = std::chrono::seconds(10);
constexpr auto kLingerIdle = std::chrono::seconds(2);
constexpr std::size_t kLingerBytes = 64 * 1024 * 1024;
constexpr std::size_t kLingerStep = 16 * 1024;
}  // namespace

Http1Connection::Http1Connection(net::StreamPtr stream, std::string_view prefix, bool secure,
                                 const ServerLimits& limits, const Handler& handler, Drain* drain)
    : stream_(std::move(stream)),
      in_(prefix),
      secure_(secure),
      limits_(limits),
      handler_(handler),
      drain_(drain),
      head_started_(Steady::now()) {
  if (drain_ == nullptr) return;
  drain_->on_request([this] {
    if (idle_ && stream_) stream_->close();
  });
}

Http1Connection::~Http1Connection() {
  if (drain_ != nullptr) drain_->on_request(nullptr);
}

Task<> Http1Connection::run() {
  for (;;) {
    auto request = co_await next_request();
    if (!request) break;
    if (!co_await serve(std::move(*request)) || draining()) break;
    in_.shrink();
    // The clock of the next head starts with its first byte.
    head_started_ = in_.empty() ? Steady::time_point::max() : Steady::now();
  }
  if (stream_) stream_->close();
}

Task<bool> Http1Connection::receive_head_bytes() {
  auto now = Steady::now();
  bool first = in_.empty();
  bool kept = head_started_ == Steady::time_point::max();
  auto limit = kept ? limits_.idle_timeout : head_started_ + limits_.head_timeout - now;
  if (limit > Steady::duration::zero()) {
    stream_->set_idle_limit(limit);
    idle_ = first;
    if (idle_ && draining()) co_return false;
    auto count = co_await in_.fill(*stream_, limits_.head_bytes + 1);
    idle_ = false;
    if (kept) head_started_ = Steady::now();
    if (count.ok()) co_return *count > 0;
    if (count.error().code() != Code::kDeadline) co_return false;
  }
  // A connection on which nothing was asked is closed without a word.
  Refusal too_slow{408, "the request head took too long to arrive"};
  if (!in_.empty()) co_await refuse(std::move(too_slow));
  co_return false;
}

Task<std::optional<ParsedRequest>> Http1Connection::next_request() {
  HeadScanner scanner(head_limits());
  bool skipped = false;
  for (;;) {
    if (!skipped && in_.data().starts_with("\r\n")) {
      // Some old clients send an empty line after a body; one is let pass (RFC 9112 §2.2).
      in_.consume(2);
      skipped = true;
      scanner = HeadScanner(head_limits());
    }
    auto scanned = scanner.scan(in_.data());
    if (auto* refusal = std::get_if<Refusal>(&scanned)) {
      co_await refuse(*refusal);
      co_return std::nullopt;
    }
    if (auto size = std::get<std::size_t>(scanned); size > 0) {
      auto parsed = parse_request_head(in_.data().substr(0, size), head_limits());
      in_.consume(size);
      if (auto* request = std::get_if<ParsedRequest>(&parsed)) co_return std::move(*request);
      co_await refuse(std::get<Refusal>(parsed));
      co_return std::nullopt;
    }
    if (!co_await receive_head_bytes()) co_return std::nullopt;
  }
}

Task<> Http1Connection::refuse(Refusal refusal) {
  auto body = error_body(refusal.status, refusal.message);
  auto head = fmt::format(
      "HTTP/1.1 {} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n"
      "connection: close\r\n\r\n",
      refusal.status, reason_phrase(refusal.status), body.size());
  stream_->set_idle_limit(kLingerIdle);
  auto written = co_await stream_->write_all(head, body);
  if (written.ok()) co_await linger();
}

Task<> Http1Connection::linger() {
  if (!(co_await stream_->shutdown_write()).ok()) co_return;
  auto deadline = Steady::now() + kLingerTime;
  std::string waste(kLingerStep, '\0');
  for (std::size_t total = 0; total < kLingerBytes;) {
    auto left = deadline - Steady::now();
    if (left <= Steady::duration::zero()) co_return;
    stream_->set_idle_limit(std::min<Steady::duration>(left, kLingerIdle));
    auto count = co_await stream_->read_some(waste);
    if (!count.ok() || *count == 0) co_return;
    total += *count;
  }
}

Task<bool> Http1Connection::serve(ParsedRequest request) {
  request.head.secure = secure_;
  request.head.peer = stream_->peer();
  stream_->set_idle_limit(limits_.body_idle);
  in_.shrink();  // the answer may take long
  Http1Exchange exchange(*this, std::move(request));
  std::string thrown;
  try {
    co_await handler_(exchange);
  } catch (const std::exception& failure) {
    thrown = failure.what();
  }
  auto state = co_await asio::this_coro::cancellation_state;
  if (state.cancelled() != asio::cancellation_type::none) {
    if (stream_) stream_->close(net::Stream::Close::kReset);
    co_return false;
  }
  if (!thrown.empty())
    log::error("request handler threw", {{"target", exchange.request().path()}, {"what", thrown}});
  if (exchange.gone()) co_return false;
  if (!exchange.head_sent()) {
    ResponseHead head{.status = 500};
    head.headers.add("content-type", "application/json");
    auto answered = co_await exchange.respond(std::move(head), error_body(500, "internal error"));
    if (!answered.ok()) co_return false;
  }
  if (!exchange.complete()) {
    exchange.abort();
    co_return false;
  }
  if (exchange.keep_alive() && co_await exchange.discard_body()) co_return true;
  if (!exchange.gone() && (!exchange.body_read() || !in_.empty())) co_await linger();
  co_return false;
}

Task<> serve_http1(net::StreamPtr stream, std::string prefix, bool secure, const ServerLimits& limits,
                   const Handler& handler, Drain* drain) {
  Http1Connection connection(std::move(stream), prefix, secure, limits, handler, drain);
  free_text(prefix);
  co_await connection.run();
}

}  // namespace atl::http
