// SPDX-License-Identifier: Apache-2.0
#include "http/client.h"

#include "http/http1_client.h"
#include "http/syntax.h"

namespace atl::http {
namespace {
constexpr std::size_t kReadStep = 16 * 1024;

bool is_framing_field(std::string_view name) {
  return name == "host" || name == "content-length" || name == "transfer-encoding";
}

Result<std::string> serialize(const RequestHead& request) {
  TRY_VOID(check_headers(request.headers));
  bool connect = request.method == "CONNECT";
  bool target_ok =
      connect ? is_authority(request.target) : request.target == "*" || is_origin_form(request.target);
  if (!is_token(request.method) || !target_ok) {
    return make_error(Code::kInvalid,
                      "request cannot be sent: its method or target holds characters that are not allowed");
  }
  if (!is_authority(request.authority)) {
    return make_error(Code::kInvalid,
                      "request cannot be sent: its authority is not a host name with an optional port");
  }
  std::string out;
  out.reserve(512);
  out.append(request.method).append(" ").append(request.target).append(" HTTP/1.1\r\nhost: ");
  out.append(request.authority).append("\r\n");
  for (const auto& field : request.headers) {
    if (!is_framing_field(field.name)) out.append(field.name).append(": ").append(field.value).append("\r\n");
  }
  if (request.content_length) {
    fmt::format_to(std::back_inserter(out), "content-length: {}\r\n", *request.content_length);
  } else if (request.has_body) {
    out += "transfer-encoding: chunked\r\n";
  }
  out += "\r\n";
  return out;
}
}  // namespace

std::shared_ptr<Client> make_client(Connector connector, ClientLimits limits) {
  return std::make_shared<Http1Client>(std::move(connector), limits);
}

Task<Result<std::unique_ptr<ClientExchange>>> Http1Client::start(RequestHead request,
                                                                 BeforeSend before_send) {
  CO_TRY(std::string head, serialize(request));
  auto self = std::static_pointer_cast<Http1Client>(shared_from_this());
  auto connection = take_kept();
  if (!connection) {
    CO_TRY(auto fresh, co_await connect());
    connection = std::move(fresh);
  }
  auto exchange = std::make_unique<Http1ClientExchange>(self, std::move(connection), request, std::move(head),
                                                        std::move(before_send));
  CO_TRY_VOID(co_await exchange->send_request_head());
  co_return std::unique_ptr<ClientExchange>(std::move(exchange));
}

Task<Result<std::unique_ptr<ClientConnection>>> Http1Client::connect() {
  CO_TRY(net::StreamPtr stream, co_await connector_());
  if (!expiry_) expiry_.emplace(co_await async::asio::this_coro::executor);
  auto connection = std::make_unique<ClientConnection>();
  connection->stream = std::move(stream);
  co_return connection;
}

std::unique_ptr<ClientConnection> Http1Client::take_kept() {
  drop_expired();
  while (!kept_.empty()) {
    auto connection = std::move(kept_.back());
    kept_.pop_back();
    if (connection->stream->quiet()) return connection;
  }
  return nullptr;
}

void Http1Client::release(std::unique_ptr<ClientConnection> connection) {
  // Bytes that nobody asked for: what the peer says next could not be told from an answer.
  if (!connection->in.empty() || limits_.max_idle == 0 || !connection->stream->quiet()) return;
  connection->in.shrink();
  connection->reused = true;
  connection->idle_since = Steady::now();
  connection->stream->set_idle_limit(Steady::duration::zero());
  kept_.push_back(std::move(connection));
  if (kept_.size() > limits_.max_idle) kept_.pop_front();
  watch_expiry();
}

void Http1Client::drop_expired() {
  auto limit = Steady::now() - limits_.idle_timeout;
  while (!kept_.empty() && kept_.front()->idle_since <= limit) kept_.pop_front();
}

void Http1Client::watch_expiry() {
  if (expiry_watched_ || kept_.empty() || !expiry_) return;
  expiry_watched_ = true;
  expiry_->expires_at(kept_.front()->idle_since + limits_.idle_timeout);
  expiry_->async_wait([weak = weak_from_this()](const boost::system::error_code&) {
    auto self = std::static_pointer_cast<Http1Client>(weak.lock());
    if (!self) return;
    self->expiry_watched_ = false;
    self->drop_expired();
    self->watch_expiry();
  });
}

void Http1Client::close_idle() {
  kept_.clear();
  if (expiry_) expiry_->cancel();
}

Task<Result<std::string>> ClientExchange::read_all(std::size_t limit) {
  std::string out;
  std::size_t used = 0;
  for (;;) {
    auto step = std::min(std::max(kReadStep, used), limit + 1 - used);
    out.resize(used + step);
    CO_TRY(std::size_t count, co_await read_body(std::span(out.data() + used, step)));
    used += count;
    if (count == 0) break;
    if (used > limit)
      co_return make_error(Code::kTooLarge, "answer larger than the {} bytes accepted here", limit);
  }
  out.resize(used);
  co_return out;
}

Task<Result<Answer>> fetch(std::shared_ptr<Client> client, RequestHead request, std::string body,
                           std::size_t limit) {
  request.has_body = !body.empty();
  if (request.has_body) request.content_length = body.size();
  CO_TRY(auto exchange, co_await client->start(std::move(request)));
  // A peer may refuse a body and stop reading it; its answer says more than our failure to write.
  auto written = co_await exchange->write_body(body);
  auto head = co_await exchange->read_head();
  if (!head.ok()) co_return written.ok() ? std::move(head).error() : std::move(written).error();
  CO_TRY(std::string text, co_await exchange->read_all(limit));
  co_return Answer{*std::move(head), std::move(text)};
}

}  // namespace atl::http
