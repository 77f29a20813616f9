// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/check.h"
#include "base/text.h"
#include "http/http1_server.h"
#include "http/syntax.h"
#include "http/trailers.h"
#include "net/prefix_stream.h"

namespace atl::http {
namespace {
constexpr std::size_t kDiscardLimit = 256 * 1024;
constexpr std::size_t kDiscardStep = 16 * 1024;
constexpr auto kDiscardIdle = std::chrono::seconds(5);
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// The peer's going away is not a failure of ours.
Error as_client_gone(Error error) {
  if (error.code() == Code::kUnavailable) return std::move(error).with_code(Code::kCancelled);
  return error;
}

Result<void> client_result(Result<void> result) {
  if (!result.ok()) return as_client_gone(std::move(result).error());
  return result;
}

bool is_framing_field(std::string_view name) {
  return name == "connection" || name == "transfer-encoding" || name == "content-length" ||
         name == "keep-alive";
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}
}  // namespace

Http1Exchange::Http1Exchange(Http1Connection& connection, ParsedRequest request)
    : connection_(connection),
      body_(request.framing, request.head.content_length.value_or(0)),
      keep_alive_(request.keep_alive),
      expects_continue_(request.expects_continue) {
  request_ = std::move(request.head);
}

Task<Result<std::size_t>> Http1Exchange::read_body(std::span<char> out) {
  if (gone()) co_return make_error(Code::kCancelled, "read the request body: the exchange is over");
  if (expects_continue_ && !body_.done()) CO_TRY_VOID(co_await send_continue());
  auto count = co_await body_.read(*connection_.stream_, connection_.in_, out);
  if (count.ok() && *count == 0) request_trailers_ = body_.trailers();
  if (count.ok()) co_return count;
  keep_alive_ = false;
  co_return as_client_gone(std::move(count).error());
}

Task<Result<void>> Http1Exchange::send_continue() {
  expects_continue_ = false;
  if (head_sent_) co_return success();
  continuing_.emplace(co_await async::asio::this_coro::executor);
  auto written = co_await connection_.stream_->write_all(kContinue);
  auto waiting = std::move(continuing_);
  continuing_.reset();
  waiting->notify_all();
  co_return client_result(std::move(written));
}

Task<> Http1Exchange::wait_continue_sent() {
  while (continuing_) co_await continuing_->wait();
}

Result<std::string> Http1Exchange::make_head(ResponseHead head) {
  CHECK(!head_sent_, "a second head for {} {}", request_.method, request_.target);
  TRY_VOID(check_headers(head.headers));
  bool no_body_status = head.status == 204 || head.status == 304;
  auto length = head.headers.find("content-length");
  std::optional<std::uint64_t> declared;
  if (length) declared = parse_content_length(*length);
  if (length && !declared)
    return make_error(Code::kInvalid, "content-length '{}' is not a number", printable(*length));

  sends_body_ = request_.method != "HEAD" && !no_body_status;
  if (sends_body_) due_ = declared;
  chunked_ = sends_body_ && !declared && request_.version == 11;
  bool until_close = sends_body_ && !declared && !chunked_;
  // A client that still waits for "100 Continue" may or may not send its body now; only a new connection is
  // certain.
  bool body_uncertain = expects_continue_ && !body_.done();
  // Whoever answers before it has read everything says at once whether it will read the rest: a client that
  // was told otherwise sends its next request into a connection that is about to be closed.
  bool too_much = body_.left().value_or(UINT64_MAX) > kDiscardLimit;
  if (until_close || body_uncertain || too_much || connection_.draining() ||
      head.headers.has_token("connection", "close")) {
    keep_alive_ = false;
  }

  std::string out;
  out.reserve(256);
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\n", head.status, head.reason());
  for (const auto& field : head.headers) {
    if (!is_framing_field(field.name)) append_field(out, field.name, field.value);
  }
  if (declared && head.status != 204) append_field(out, "content-length", std::to_string(*declared));
  if (chunked_ || (request_.method == "HEAD" && !declared && !no_body_status && request_.version == 11)) {
    append_field(out, "transfer-encoding", "chunked");
  }
  if (!keep_alive_) append_field(out, "connection", "close");
  out += "\r\n";
  return out;
}

Result<void> Http1Exchange::count_body(std::size_t size) {
  if (!head_sent_ || finished_)
    return make_error(Code::kInternal, "body bytes outside of the answer to {}", request_.target);
  if (!due_) return success();
  if (size > *due_)
    return make_error(Code::kInternal, "answer to {} is longer than its content-length", request_.target);
  *due_ -= size;
  return success();
}

Task<Result<void>> Http1Exchange::send_head(ResponseHead head) { return send_head_and(std::move(head), ""); }

Task<Result<void>> Http1Exchange::send_head_and(ResponseHead head, std::string_view first) {
  if (gone()) co_return make_error(Code::kCancelled, "answer: the exchange is over");
  if (continuing_) co_await wait_continue_sent();
  CO_TRY(std::string out, make_head(std::move(head)));
  head_sent_ = true;
  if (!sends_body_) first = {};
  CO_TRY_VOID(count_body(first.size()));
  std::string_view tail;
  if (chunked_ && !first.empty()) {
    fmt::format_to(std::back_inserter(out), "{:x}\r\n", first.size());
    tail = "\r\n";
  }
  co_return client_result(co_await connection_.stream_->write_all(out, first, tail));
}

Task<Result<void>> Http1Exchange::write(std::string_view data) {
  if (gone()) co_return make_error(Code::kCancelled, "answer: the exchange is over");
  if (!sends_body_ || data.empty()) co_return success();
  CO_TRY_VOID(count_body(data.size()));
  if (!chunked_) co_return client_result(co_await connection_.stream_->write_all(data));
  std::array<char, 20> size;
  auto end = fmt::format_to_n(size.data(), size.size(), "{:x}\r\n", data.size()).out;
  std::string_view prefix(size.data(), static_cast<std::size_t>(end - size.data()));
  co_return client_result(co_await connection_.stream_->write_all(prefix, data, "\r\n"));
}

Task<Result<void>> Http1Exchange::finish() {
  if (gone()) co_return make_error(Code::kCancelled, "answer: the exchange is over");
  if (finished_) co_return success();
  CO_TRY_VOID(count_body(0));
  if (due_.value_or(0) > 0) {
    abort();
    co_return make_error(Code::kInternal, "answer to {} is shorter than its content-length", request_.target);
  }
  if (chunked_) {
    auto end = last_chunk(trailers_);
    CO_TRY_VOID(client_result(co_await connection_.stream_->write_all(end)));
  }
  finished_ = true;
  co_return success();
}

void Http1Exchange::abort() {
  if (gone()) return;
  aborted_ = true;
  connection_.stream_->close(net::Stream::Close::kReset);
}

Task<> Http1Exchange::wait_client_gone() {
  if (!gone()) co_await connection_.stream_->wait_closed();
}

Task<bool> Http1Exchange::refused(Steady::duration limit) {
  if (gone()) co_return true;
  co_return co_await connection_.stream_->refused(limit);
}

Task<Result<net::StreamPtr>> Http1Exchange::upgrade(ResponseHead head) {
  if (gone() || head_sent_ || !body_.done()) {
    co_return make_error(Code::kInternal, "upgrade of {}: only before an answer and after the body",
                         request_.target);
  }
  CO_TRY_VOID(check_headers(head.headers));
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", head.status, head.reason());
  for (const auto& field : head.headers) {
    if (!is_framing_field(field.name)) append_field(out, field.name, field.value);
  }
  if (head.status == 101) append_field(out, "connection", "upgrade");
  out += "\r\n";
  head_sent_ = true;
  CO_TRY_VOID(client_result(co_await connection_.stream_->write_all(out)));
  upgraded_ = true;
  auto stream = std::move(connection_.stream_);
  stream->set_idle_limit(Steady::duration::zero());
  co_return net::with_prefix(std::move(stream), connection_.in_.take_all());
}

void Http1Exchange::set_idle_limit(Steady::duration limit) {
  if (!gone()) connection_.stream_->set_idle_limit(limit);
}

Task<bool> Http1Exchange::discard_body() {
  if (body_.done()) co_return true;
  // The client was not told to send; if it does not, the next request would be taken for a body.
  if (expects_continue_) co_return false;
  connection_.stream_->set_idle_limit(kDiscardIdle);
  std::string waste(kDiscardStep, '\0');
  for (std::size_t total = 0; total <= kDiscardLimit;) {
    auto count = co_await body_.read(*connection_.stream_, connection_.in_, waste);
    if (!count.ok()) co_return false;
    if (*count == 0) co_return true;
    total += *count;
  }
  co_return false;
}

}  // namespace atl::http
