// SPDX-License-Identifier: Apache-2.0
#include "guest/rpc.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/text.h"
#include "guest/limits.h"
#include "http/connect_rpc.h"

namespace atl::guest {

namespace connect = http::connect;

namespace {

constexpr std::int64_t kMaxTimeoutMs = 1'000LL * 3600 * 24 * 365;

// "application/json; charset=utf-8" → "application/json"
std::string media_type(const http::Headers& headers) {
  auto value = headers.find("content-type").value_or("");
  return to_lower(trim(value.substr(0, value.find(';'))));
}

Result<void> check_content_type(const Exchange& exchange, std::string_view wanted) {
  if (media_type(exchange.request().headers) == wanted) return success();
  return make_error(Code::kInvalid, "content-type must be {}: only the JSON codec is served", wanted);
}

}  // namespace

Task<> respond(Exchange& exchange, http::ResponseHead head, std::string body) {
  [[maybe_unused]] auto sent = co_await exchange.respond(std::move(head), std::move(body));
}

Task<> finish(Exchange& exchange) { [[maybe_unused]] auto sent = co_await exchange.finish(); }

Task<> respond_json(Exchange& exchange, int status, std::string json) {
  http::ResponseHead head;
  head.status = status;
  head.headers.add("content-type", "application/json");
  co_await respond(exchange, std::move(head), std::move(json));
}

Task<> respond_error(Exchange& exchange, int status, std::string_view message) {
  ObjectWriter body;
  body.number("code", status).text("message", message);
  co_await respond_json(exchange, status, std::move(body).finish());
}

Task<> respond_error(Exchange& exchange, const Error& error) {
  co_await respond_error(exchange, http_status(error.code()), error.message());
}

Task<> respond_unary(Exchange& exchange, Result<std::string> answer) {
  if (answer.ok()) {
    co_await respond_json(exchange, 200, std::move(*answer));
  } else {
    int status = connect::rpc_status(connect::rpc_code(answer.error().code()));
    co_await respond_json(exchange, status, connect::error_json(answer.error()));
  }
}

Task<Result<boost::json::object>> read_unary(Exchange& exchange) {
  CO_TRY_VOID(check_content_type(exchange, "application/json"));
  CO_TRY(std::string text, co_await exchange.read_all(kMaxMessage));
  co_return parse_message(text);
}

Task<Result<boost::json::object>> read_stream_request(Exchange& exchange) {
  CO_TRY_VOID(check_content_type(exchange, "application/connect+json"));
  CO_TRY(std::string body, co_await exchange.read_all(kMaxMessage + 5));
  connect::EnvelopeReader reader(kMaxMessage);
  reader.feed(body);
  CO_TRY(auto envelope, reader.next());
  if (!envelope) co_return Error(Code::kInvalid, "the request ends in the middle of its message");
  if (envelope->flags != 0)
    co_return make_error(Code::kInvalid, "message flags {} are not served", envelope->flags);
  if (!reader.empty()) co_return Error(Code::kInvalid, "more than one message in the request");
  co_return parse_message(envelope->payload);
}

Result<std::string> basic_user(const http::Headers& headers) {
  auto value = headers.find("authorization");
  if (!value) return std::string();
  constexpr std::string_view kScheme = "basic ";
  if (!equals_ignore_case(value->substr(0, kScheme.size()), kScheme)) return std::string();
  auto decoded = base64_decode(trim(value->substr(kScheme.size())));
  if (!decoded || decoded->find(':') == std::string::npos)
    return Error(Code::kUnauthenticated, "the Authorization header is not valid Basic authentication");
  return decoded->substr(0, decoded->find(':'));
}

Result<std::optional<Millis>> call_timeout(const http::Headers& headers) {
  auto value = headers.find("connect-timeout-ms");
  if (!value) return std::optional<Millis>();
  auto number = parse_number<std::int64_t>(*value);
  if (!number || *number < 0)
    return make_error(Code::kInvalid, "connect-timeout-ms: '{}' is not a whole number of milliseconds",
                      printable(*value));
  if (*number == 0) return std::optional<Millis>();
  return std::optional(Millis(std::min(*number, kMaxTimeoutMs)));
}

Steady::duration keepalive_interval(const http::Headers& headers) {
  auto seconds = parse_number<std::uint32_t>(headers.find("keepalive-ping-interval").value_or(""));
  if (!seconds || *seconds == 0) return kKeepaliveDefault;
  return std::chrono::seconds(*seconds);
}

EventStream::EventStream(Exchange& exchange, std::string_view keepalive)
    : exchange_(exchange),
      keepalive_(keepalive),
      interval_(keepalive_interval(exchange.request().headers)),
      keepalive_due_(Steady::now() + interval_) {}

Task<Result<void>> EventStream::open() {
  if (exchange_.head_sent()) co_return success();
  http::ResponseHead head;
  head.headers.add("content-type", "application/connect+json");
  co_return co_await exchange_.send_head(std::move(head));
}

Task<Result<void>> EventStream::send(std::string_view json) {
  CO_TRY_VOID(co_await open());
  keepalive_due_ = Steady::now() + interval_;
  std::string frame = connect::envelope(json);
  co_return co_await exchange_.write(frame);
}

Task<> EventStream::end(std::optional<Error> error) {
  auto opened = co_await open();
  if (!opened.ok()) co_return;
  std::string frame = connect::end_stream(error ? &*error : nullptr);
  auto written = co_await exchange_.write(frame);
  if (written.ok()) co_await finish(exchange_);
}

Task<Result<void>> EventStream::send_keepalive() { co_return co_await send(keepalive_); }

ClientWatch::ClientWatch(async::Executor executor, Exchange& exchange, std::function<void()> on_gone)
    : scope_(std::move(executor)), on_gone_(std::move(on_gone)) {
  scope_.spawn("client watch", watch(exchange));
}

Task<> ClientWatch::watch(Exchange& exchange) {
  co_await exchange.wait_client_gone();
  if (scope_.cancelled()) co_return;
  gone_ = true;
  on_gone_();
}

Task<> ClientWatch::stop() {
  scope_.cancel();
  co_await scope_.join();
}

}  // namespace atl::guest
