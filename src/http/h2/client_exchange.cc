// SPDX-License-Identifier: Apache-2.0
#include "http/h2/client_exchange.h"

#include "base/check.h"

namespace atl::http {
namespace {
// Takes the caller's bytes back however a write ends.
struct Outgoing {
  H2ClientStream& stream;
  ~Outgoing() { stream.outgoing = {}; }
};
}  // namespace

H2ClientExchange::H2ClientExchange(std::shared_ptr<H2ClientConnection> connection,
                                   H2ClientConnection::StreamRef stream, const RequestHead& request,
                                   bool has_body)
    : connection_(std::move(connection)),
      stream_(std::move(stream)),
      due_(request.content_length),
      request_complete_(!has_body) {}

H2ClientExchange::~H2ClientExchange() { connection_->drop(*stream_); }

Steady::time_point H2ClientExchange::deadline() const {
  return idle_limit_ > Steady::duration::zero() ? Steady::now() + idle_limit_ : Steady::time_point::max();
}

Error H2ClientExchange::failure(std::string_view what) const {
  if (closed_) return make_error(Code::kCancelled, "{}: the exchange has been closed on this side", what);
  if (stream_->failure) return *stream_->failure;
  return make_error(Code::kUnavailable, "{}: {} has ended the stream", what, connection_->peer());
}

Task<Result<void>> H2ClientExchange::write_body(std::string_view data) {
  if (data.empty()) co_return success();
  if (request_complete_) co_return make_error(Code::kInternal, "request body bytes after its end");
  if (due_ && data.size() > *due_)
    co_return make_error(Code::kInternal, "request body is longer than its content-length");
  auto& s = *stream_;
  if (s.closed || closed_) co_return failure("send a request body");
  Outgoing guard{s};
  bool last = due_ && *due_ == data.size() && request_trailers_.size() == 0;
  s.outgoing = data;
  if (last) s.end_queued = true;
  connection_->resume(s);
  auto until = deadline();
  while (!s.outgoing.empty() && !s.closed && !closed_) {
    auto left = s.outgoing.size();
    bool notified = co_await s.writable.wait_until(until);
    if (s.outgoing.size() < left) until = deadline();
    if (!notified && Steady::now() >= until)
      co_return make_error(Code::kDeadline, "{} does not read the request", connection_->peer());
  }
  // The peer may have answered and ended the stream meanwhile; what it has taken is sent.
  if (!s.outgoing.empty() || closed_) co_return failure("send a request body");
  if (due_) *due_ -= data.size();
  request_complete_ = last;
  co_return success();
}

Task<Result<void>> H2ClientExchange::finish_body() {
  if (request_complete_) co_return success();
  if (due_.value_or(0) > 0)
    co_return make_error(Code::kInternal, "request body ends {} bytes before its content-length", *due_);
  if (stream_->closed || closed_) co_return failure("send a request body");
  stream_->request_trailers = request_trailers_;
  stream_->end_queued = true;
  request_complete_ = true;
  connection_->resume(*stream_);
  co_return success();
}

Task<Result<ResponseHead>> H2ClientExchange::read_head() {
  if (head_read_) co_return make_error(Code::kInternal, "the answer's head has been read already");
  auto until = deadline();
  auto& s = *stream_;
  while (!s.head_done || s.failure) {
    if (s.closed || closed_ || s.failure) co_return failure("read an answer");
    if (Steady::now() >= until)
      co_return make_error(Code::kDeadline, "read from {}: no progress within the time limit",
                           connection_->peer());
    (void)co_await s.readable.wait_until(until);
  }
  head_read_ = true;
  co_return std::move(s.head);
}

Task<Result<void>> H2ClientExchange::wait_body() {
  auto& s = *stream_;
  auto until = deadline();
  while (s.buffered() == 0 && !closed_ && !s.end_received && !s.closed && !s.failure) {
    if (Steady::now() >= until)
      co_return make_error(Code::kDeadline, "read from {}: no progress within the time limit",
                           connection_->peer());
    (void)co_await s.readable.wait_until(until);
  }
  co_return success();
}

Task<Result<std::size_t>> H2ClientExchange::read_body(std::span<char> out) {
  CHECK(!out.empty(), "read into an empty buffer");
  if (!head_read_) co_return make_error(Code::kInternal, "the answer's head has not been read yet");
  CO_TRY_VOID(co_await wait_body());
  auto& s = *stream_;
  if (s.buffered() == 0) {
    bool whole = s.end_received && !s.failure && !closed_;
    if (!whole) co_return failure("read an answer body");
    trailers_ = s.trailers;
    co_return std::size_t{0};
  }
  auto count = s.take(out);
  connection_->release(s, count);
  co_return count;
}

net::StreamPtr H2ClientExchange::take_stream() {
  CHECK(false, "take_stream() on HTTP/2, which is refused when it is asked for");
  return nullptr;
}

void H2ClientExchange::close() {
  if (closed_) return;
  closed_ = true;
  connection_->drop(*stream_);
  stream_->readable.notify_all();
  stream_->writable.notify_all();
}

}  // namespace atl::http
