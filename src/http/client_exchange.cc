// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "http/http1_client.h"
#include "http/trailers.h"
#include "net/prefix_stream.h"

namespace atl::http {
namespace {
// 1xx answers that a peer may send before the real one.
constexpr int kMaxInterim = 8;

Error over(std::string_view what) {
  return make_error(Code::kCancelled, "{}: the exchange has been closed on this side", what);
}
}  // namespace

Http1ClientExchange::Http1ClientExchange(std::shared_ptr<Http1Client> client,
                                         std::unique_ptr<ClientConnection> connection,
                                         const RequestHead& request, std::string head, BeforeSend before_send)
    : client_(std::move(client)),
      connection_(std::move(connection)),
      method_(request.method),
      head_(std::move(head)),
      before_send_(std::move(before_send)),
      wants_upgrade_(request.method == "CONNECT" || request.headers.find("upgrade").has_value()),
      has_body_(request.has_body || request.content_length.value_or(0) > 0),
      due_(request.content_length),
      request_complete_(!has_body_) {}

Http1ClientExchange::~Http1ClientExchange() {
  if (connection_ && complete() && keep_alive_) client_->release(std::move(connection_));
}

Task<Result<void>> Http1ClientExchange::send_request_head() {
  CO_TRY_VOID(may_send());
  auto sent = co_await connection_->stream->write_all(head_);
  if (!sent.ok() && connection_) co_return co_await replace_connection(std::move(sent).error());
  co_return sent;
}

Task<Result<void>> Http1ClientExchange::replace_connection(Error reason) {
  bool safe = connection_ && connection_->reused && !answered_ && !has_body_ && !replaced_ && !closed_ &&
              is_idempotent(method_);
  if (!safe || reason.code() == Code::kDeadline || reason.code() == Code::kCancelled) co_return reason;
  replaced_ = true;
  CO_TRY(auto fresh, co_await client_->connect());
  if (closed_) co_return over("send a request again");
  CO_TRY_VOID(may_send());
  connection_ = std::move(fresh);
  connection_->stream->set_idle_limit(idle_limit_);
  co_return co_await connection_->stream->write_all(head_);
}

Task<Result<void>> Http1ClientExchange::write_body(std::string_view data) {
  if (!connection_) co_return over("send a request body");
  if (data.empty()) co_return success();
  if (request_complete_) co_return make_error(Code::kInternal, "request body bytes after its end");
  auto& stream = *connection_->stream;
  if (due_) {
    if (data.size() > *due_)
      co_return make_error(Code::kInternal, "request body is longer than its content-length");
    CO_TRY_VOID(co_await stream.write_all(data));
    *due_ -= data.size();
    // Not before: the answer may come first, and what was cut off in the middle is not a request.
    request_complete_ = *due_ == 0;
    co_return success();
  }
  std::array<char, 20> size;
  auto end = fmt::format_to_n(size.data(), size.size(), "{:x}\r\n", data.size()).out;
  std::string_view prefix(size.data(), static_cast<std::size_t>(end - size.data()));
  co_return co_await stream.write_all(prefix, data, "\r\n");
}

Task<Result<void>> Http1ClientExchange::finish_body() {
  if (!connection_) co_return over("send a request body");
  if (request_complete_) co_return success();
  if (due_)
    co_return make_error(Code::kInternal, "request body ends {} bytes before its content-length", *due_);
  auto end = last_chunk(request_trailers_);
  CO_TRY_VOID(co_await connection_->stream->write_all(end));
  request_complete_ = true;
  co_return success();
}

Task<Result<void>> Http1ClientExchange::receive_head_bytes() {
  auto& connection = *connection_;
  auto count = co_await connection.in.fill(*connection.stream, client_->limits().head_bytes + 1);
  if (!connection_) co_return over("read an answer");
  if (count.ok() && *count > 0) {
    answered_ = true;
    co_return success();
  }
  auto gone =
      make_error(Code::kUnavailable, "{} closed the connection before an answer", connection.stream->peer());
  if (count.ok()) co_return co_await replace_connection(std::move(gone));
  co_return co_await replace_connection(std::move(count).error());
}

Task<Result<ParsedResponse>> Http1ClientExchange::read_one_head() {
  const auto& bounds = client_->limits();
  HeadLimits limits{bounds.head_bytes, bounds.header_count, bounds.head_bytes};
  HeadScanner scanner(limits);
  for (;;) {
    auto scanned = scanner.scan(connection_->in.data());
    if (auto* refusal = std::get_if<Refusal>(&scanned)) {
      co_return make_error(Code::kCorrupt, "answer of {}: {}", connection_->stream->peer(), refusal->message);
    }
    if (auto size = std::get<std::size_t>(scanned); size > 0) {
      auto parsed = parse_response_head(connection_->in.data().substr(0, size), method_, limits);
      connection_->in.consume(size);
      head_bytes_ += size;
      if (auto* response = std::get_if<ParsedResponse>(&parsed)) co_return std::move(*response);
      co_return make_error(Code::kCorrupt, "answer of {}: {}", connection_->stream->peer(),
                           std::get<Refusal>(parsed).message);
    }
    CO_TRY_VOID(co_await receive_head_bytes());
  }
}

Task<Result<ResponseHead>> Http1ClientExchange::read_head() {
  if (!connection_) co_return over("read an answer");
  if (head_read_) co_return make_error(Code::kInternal, "the answer's head has been read already");
  for (int interim = 0; interim <= kMaxInterim && head_bytes_ <= client_->limits().head_bytes; ++interim) {
    CO_TRY(ParsedResponse parsed, co_await read_one_head());
    if (parsed.head.status < 200 && parsed.head.status != 101) continue;
    if (parsed.head.status == 101 && !wants_upgrade_) {
      co_return make_error(Code::kCorrupt, "answer of {}: protocol switch that nobody asked for",
                           connection_->stream->peer());
    }
    head_read_ = true;
    upgraded_ = parsed.head.status == 101 || (method_ == "CONNECT" && parsed.head.status / 100 == 2);
    keep_alive_ = parsed.keep_alive && !upgraded_;
    body_ = BodyReader(parsed.framing, parsed.content_length);
    free_text(head_);
    co_return std::move(parsed.head);
  }
  co_return make_error(Code::kCorrupt, "answer of {}: too many interim answers", connection_->stream->peer());
}

Task<Result<std::size_t>> Http1ClientExchange::read_body(std::span<char> out) {
  if (!connection_) co_return over("read an answer body");
  if (!head_read_) co_return make_error(Code::kInternal, "the answer's head has not been read yet");
  auto count = co_await body_.read(*connection_->stream, connection_->in, out);
  if (!count.ok()) keep_alive_ = false;
  if (count.ok() && *count == 0) trailers_ = body_.trailers();
  if (!count.ok() && count.error().code() == Code::kInvalid)
    co_return std::move(count).error().with_code(Code::kCorrupt);
  co_return count;
}

Task<Result<void>> Http1ClientExchange::wait_body() {
  if (!connection_ || !head_read_) co_return success();  // read_body() says why not
  auto waited = co_await body_.wait(*connection_->stream, connection_->in);
  if (!waited.ok()) keep_alive_ = false;
  co_return waited;
}

net::StreamPtr Http1ClientExchange::take_stream() {
  CHECK(upgraded_ && connection_, "take_stream() without an upgraded connection");
  auto rest = connection_->in.take_all();
  auto stream = std::move(connection_->stream);
  connection_.reset();
  return net::with_prefix(std::move(stream), std::move(rest));
}

void Http1ClientExchange::close() {
  // The connection stays until the exchange goes away: operations on it may be pending and end with
  // kCancelled.
  closed_ = true;
  keep_alive_ = false;
  if (connection_) connection_->stream->close();
}

void Http1ClientExchange::set_idle_limit(Steady::duration limit) {
  idle_limit_ = limit;
  if (connection_) connection_->stream->set_idle_limit(limit);
}

}  // namespace atl::http
