// SPDX-License-Identifier: Apache-2.0
#include "http/h2/exchange.h"

#include "base/check.h"
#include "base/text.h"
#include "http/syntax.h"

namespace atl::http {
namespace {
constexpr auto kNever = Steady::time_point::max();

Steady::time_point deadline_after(Steady::duration limit) {
  return limit > Steady::duration::zero() ? Steady::now() + limit : kNever;
}

// Takes the exchange's bytes back however a write ends, because they are the caller's.
struct Outgoing {
  H2Stream& stream;
  ~Outgoing() {
    stream.outgoing = {};
    stream.write_deadline = kNever;
  }
};

struct Reading {
  H2Stream& stream;
  ~Reading() { stream.read_deadline = kNever; }
};
}  // namespace

H2Exchange::H2Exchange(H2Connection& connection, H2Connection::StreamRef stream)
    : connection_(connection), stream_(std::move(stream)) {
  request_ = std::move(stream_->request);
}

Error H2Exchange::gone(std::string_view what) const {
  return make_error(Code::kCancelled, "{} {}: the stream has ended", what, request_.path());
}

Task<Result<std::size_t>> H2Exchange::read_body(std::span<char> out) {
  CHECK(!out.empty(), "read into an empty buffer");
  auto& s = *stream_;
  Reading reading{s};
  s.read_deadline = deadline_after(s.idle_limit);
  while (s.buffered() == 0) {
    if (aborted_ || (s.closed && !s.end_received)) co_return gone("read the body of");
    if (s.end_received) {
      request_trailers_ = s.request_trailers;
      co_return std::size_t{0};
    }
    if (Steady::now() >= s.read_deadline)
      co_return make_error(Code::kDeadline, "the client sends nothing more of its body");
    co_await s.readable.wait();
  }
  auto count = s.take(out);
  connection_.release(s, count);
  co_return count;
}

Result<void> H2Exchange::count_body(std::size_t size) {
  if (!head_sent_ || finished_)
    return make_error(Code::kInternal, "body bytes outside of the answer to {}", request_.target);
  if (!due_) return success();
  if (size > *due_)
    return make_error(Code::kInternal, "answer to {} is longer than its content-length", request_.target);
  *due_ -= size;
  return success();
}

Task<Result<void>> H2Exchange::send_head(ResponseHead head) { return send_head_and(std::move(head), ""); }

Task<Result<void>> H2Exchange::send_head_and(ResponseHead head, std::string_view first) {
  CHECK(!head_sent_, "a second head for {} {}", request_.method, request_.target);
  if (aborted_) co_return gone("answer");
  CO_TRY_VOID(check_headers(head.headers));
  bool bodiless = request_.method == "HEAD" || head.status == 204 || head.status == 304;
  if (auto length = head.headers.find("content-length")) {
    auto declared = parse_content_length(*length);
    if (!declared)
      co_return make_error(Code::kInvalid, "content-length '{}' is not a number", printable(*length));
    if (!bodiless) due_ = declared;
  }
  if (head.status == 204) head.headers.remove("content-length");
  sends_body_ = !bodiless && (due_ != std::uint64_t{0} || trailers_.size() > 0);
  if (bodiless) first = {};
  // The last frame of the head, or of the data, says that it is the last, if that is known now.
  stream_->end_queued = due_ && *due_ == first.size() && trailers_.size() == 0;
  CO_TRY_VOID(connection_.submit_head(*stream_, head, sends_body_));
  head_sent_ = true;
  CO_TRY_VOID(count_body(first.size()));
  if (first.empty()) co_return success();
  co_return co_await send_outgoing(first);
}

Task<Result<void>> H2Exchange::send_outgoing(std::string_view data) {
  auto& s = *stream_;
  Outgoing guard{s};
  s.outgoing = data;
  s.write_deadline = deadline_after(s.idle_limit);
  connection_.resume(s);
  while (!s.outgoing.empty()) {
    if (s.closed || aborted_) break;
    if (Steady::now() >= s.write_deadline)
      co_return make_error(Code::kDeadline, "the client does not read the answer");
    co_await s.writable.wait();
  }
  // The stream's end also empties `outgoing`; only an end that the data itself brought about is a success.
  if (s.closed && !s.end_sent) co_return gone("answer");
  if (aborted_) co_return gone("answer");
  co_return success();
}

Task<Result<void>> H2Exchange::write(std::string_view data) {
  if (aborted_ || (stream_->closed && !stream_->end_sent)) co_return gone("answer");
  if (!sends_body_ || data.empty()) co_return success();
  CO_TRY_VOID(count_body(data.size()));
  if (due_ && *due_ == 0 && trailers_.size() == 0) stream_->end_queued = true;
  co_return co_await send_outgoing(data);
}

Task<Result<void>> H2Exchange::finish() {
  if (finished_) co_return success();
  if (aborted_ || (stream_->closed && !stream_->end_sent)) co_return gone("answer");
  CO_TRY_VOID(count_body(0));
  if (due_.value_or(0) > 0) {
    abort();
    co_return make_error(Code::kInternal, "answer to {} is shorter than its content-length", request_.target);
  }
  finished_ = true;
  if (sends_body_ && !stream_->end_queued) {
    stream_->trailers = std::move(trailers_);
    stream_->end_queued = true;
    connection_.resume(*stream_);
  }
  co_return success();
}

void H2Exchange::abort() {
  if (aborted_ || finished_) return;
  aborted_ = true;
  connection_.reset(*stream_, NGHTTP2_INTERNAL_ERROR);
  stream_->readable.notify_all();
  stream_->writable.notify_all();
}

Task<> H2Exchange::wait_client_gone() {
  while (!stream_->closed && !aborted_) co_await stream_->readable.wait();
}

Task<Result<net::StreamPtr>> H2Exchange::upgrade(ResponseHead) {
  co_return make_error(Code::kUnsupported, "a raw connection cannot be had over HTTP/2; use HTTP/1.1");
}

Task<> H2Exchange::refuse(Refusal refusal) {
  ResponseHead head{.status = refusal.status};
  head.headers.add("content-type", "application/json");
  (void)co_await respond(std::move(head), error_body(refusal.status, refusal.message));
}

}  // namespace atl::http
