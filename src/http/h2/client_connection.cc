// SPDX-License-Identifier: Apache-2.0
#include "http/h2/client_connection.h"

#include "base/log.h"
#include "base/memory.h"
#include "http/h2/client_callbacks.h"
#include "http/h2/client_exchange.h"
#include "http/h2/fields.h"
#include "http/syntax.h"

namespace atl::http {

namespace {
constexpr std::uint32_t kStreamWindow = 1024 * 1024;
// Where the connection has little: several that nobody reads leave something for the others.
constexpr std::uint32_t kNarrowStreamWindow = 16 * 1024;
constexpr std::size_t kConnectionWindow = 4 * 1024 * 1024;
constexpr std::size_t kSmallRead = 4 * 1024;
constexpr std::size_t kLargeRead = 64 * 1024;
constexpr std::size_t kSmallWrite = 16 * 1024;
constexpr std::size_t kKeepOut = 16 * 1024;  // output memory that an idle connection may keep
constexpr std::size_t kMaxAcks = 64;         // answers to PING and SETTINGS waiting to be sent
constexpr std::size_t kMaxContinuations = 8;
constexpr double kControlBurst = 200, kControlRate = 50;
constexpr auto kWriteIdle = std::chrono::seconds(60);  // the peer takes nothing, not even control frames

struct OptionFree {
  void operator()(nghttp2_option* option) const { nghttp2_option_del(option); }
};
}  // namespace

void H2ClientStream::close(std::optional<Error> why) {
  closed = true;
  if (!failure) failure = std::move(why);
  readable.notify_all();
  writable.notify_all();
}

H2ClientConnection::H2ClientConnection(async::Executor executor, net::StreamPtr stream, H2ClientLimits limits)
    : executor_(executor),
      stream_(std::move(stream)),
      limits_(std::move(limits)),
      room_(limits_.memory, kConnectionWindow),
      controls_(kControlBurst, kControlRate),
      output_(executor) {}

H2ClientConnection::~H2ClientConnection() { nghttp2_session_del(session_); }

Result<void> H2ClientConnection::start_session() {
  nghttp2_option* made = nullptr;
  if (nghttp2_option_new(&made) != 0) return make_error(Code::kInternal, "start HTTP/2: out of memory");
  std::unique_ptr<nghttp2_option, OptionFree> option(made);
  nghttp2_option_set_no_auto_window_update(made, 1);
  nghttp2_option_set_max_outbound_ack(made, kMaxAcks);
  nghttp2_option_set_max_continuations(made, kMaxContinuations);
  nghttp2_option_set_no_closed_streams(made, 1);
  if (nghttp2_session_client_new2(&session_, h2_client_callbacks(), this, made) != 0)
    return make_error(Code::kInternal, "start HTTP/2: out of memory");
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, room_.wide() ? kStreamWindow : kNarrowStreamWindow},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(limits_.head_bytes)},
  };
  if (nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings)) != 0 ||
      nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, room_.window()) != 0) {
    return make_error(Code::kInternal, "start HTTP/2: out of memory");
  }
  return success();
}

bool H2ClientConnection::usable() const {
  if (over_ || leaving_) return false;
  auto allowed = nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
  return streams_.size() < std::min<std::size_t>(limits_.streams, allowed) &&
         nghttp2_session_check_request_allowed(session_) != 0;
}

void H2ClientConnection::close_idle() {
  leaving_ = true;
  output_.notify_all();
}

Task<Result<std::unique_ptr<ClientExchange>>> H2ClientConnection::start(RequestHead request,
                                                                        BeforeSend before_send) {
  if (request.method == "CONNECT" || request.headers.find("upgrade")) {
    co_return make_error(Code::kUnsupported, "a raw connection cannot be had over HTTP/2; use HTTP/1.1");
  }
  bool has_body = request.has_body || request.content_length.value_or(0) > 0;
  if (before_send) CO_TRY_VOID(before_send());
  CO_TRY(StreamRef stream, submit(request, has_body));
  auto self = std::static_pointer_cast<H2ClientConnection>(shared_from_this());
  co_return std::make_unique<H2ClientExchange>(std::move(self), std::move(stream), request, has_body);
}

Result<H2ClientConnection::StreamRef> H2ClientConnection::submit(const RequestHead& request, bool has_body) {
  if (!usable()) {
    return make_error(Code::kUnavailable, "send a request to {}: the connection takes no more of them",
                      peer())
        .with_word(std::string(kNotProcessed));
  }
  TRY_VOID(check_headers(request.headers));
  bool target_ok = request.target == "*" || is_origin_form(request.target);
  if (!is_token(request.method) || !target_ok || !is_authority(request.authority))
    return make_error(Code::kInvalid, "request cannot be sent: it holds characters that are not allowed");
  std::vector<nghttp2_nv> fields;
  fields.reserve(request.headers.size() + 6);
  fields.push_back(h2_field(":method", request.method));
  fields.push_back(h2_field(":scheme", request.secure ? "https" : "http"));
  fields.push_back(h2_field(":authority", request.authority));
  fields.push_back(h2_field(":path", request.target));
  for (const auto& field : request.headers) {
    if (is_hop_by_hop(field.name) || field.name == "host" || field.name == "content-length") continue;
    fields.push_back(h2_field(field.name, field.value));
  }
  // The one value of TE that HTTP/2 knows; gRPC servers insist on it.
  if (request.headers.has_token("te", "trailers")) fields.push_back(h2_field("te", "trailers"));
  auto length = request.content_length ? std::to_string(*request.content_length) : std::string();
  if (request.content_length) fields.push_back(h2_field("content-length", length));
  auto stream = std::make_shared<H2ClientStream>(executor_);
  auto provider = h2_client_data_provider(*stream);
  auto id = nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(),
                                   has_body ? &provider : nullptr, nullptr);
  if (id < 0) {
    return make_error(Code::kUnavailable, "send a request to {}: {}", peer(), nghttp2_strerror(id))
        .with_word(std::string(kNotProcessed));
  }
  stream->id = id;
  streams_.emplace(id, stream);
  output_.notify_all();
  return stream;
}

Task<> H2ClientConnection::read_loop() {
  auto keep = shared_from_this();
  std::string buffer(kSmallRead, '\0');
  while (!over_) {
    stream_->set_idle_limit(limits_.idle_timeout);
    auto count = co_await stream_->read_some(buffer);
    if (over_) co_return;
    if (!count.ok() && count.error().code() == Code::kDeadline) {
      if (streams_.empty()) close_idle();
      continue;
    }
    if (!count.ok()) co_return end(std::move(count).error());
    if (*count == 0)
      co_return end(make_error(Code::kUnavailable, "{} closed the connection before an answer", peer()));
    if (!receive(std::string_view(buffer).substr(0, *count))) co_return;
    if (!room_.wide()) continue;
    auto wanted = *count == buffer.size() ? kLargeRead : *count < kSmallRead ? kSmallRead : buffer.size();
    if (wanted != buffer.size()) buffer = std::string(wanted, '\0');
  }
}

bool H2ClientConnection::receive(std::string_view bytes) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  auto used = nghttp2_session_mem_recv(session_, data, bytes.size());
  if (used == NGHTTP2_ERR_FLOODED || used == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS) abuse_ = "control frames";
  if (abuse_ != nullptr) {
    log::warn("HTTP/2 connection to an upstream ended: it sends too many",
              {{"what", abuse_}, {"peer", peer()}});
    end(make_error(Code::kCorrupt, "answer of {}: too many {}", peer(), abuse_));
    return false;
  }
  bool ok = used >= 0;
  if (ok && (nghttp2_session_want_read(session_) != 0 || nghttp2_session_want_write(session_) != 0)) {
    output_.notify_all();
    return true;
  }
  end(make_error(Code::kCorrupt, "answer of {} is not HTTP/2: {}", peer(),
                 ok ? "it was ended" : nghttp2_strerror(static_cast<int>(used))));
  return false;
}

int H2ClientConnection::charge(const char* what) {
  if (abuse_ == nullptr && controls_.take(Steady::now())) return 0;
  if (abuse_ == nullptr) abuse_ = what;
  return NGHTTP2_ERR_CALLBACK_FAILURE;
}

Task<> H2ClientConnection::write_loop() {
  auto keep = shared_from_this();
  while (!over_) {
    if (!collect_output()) co_return end(make_error(Code::kInternal, "HTTP/2 to {}: out of memory", peer()));
    if (!out_.empty()) {
      stream_->set_idle_limit(std::max<Steady::duration>(kWriteIdle, limits_.idle_timeout));
      auto written = co_await stream_->write_all(out_);
      out_.clear();
      if (!written.ok()) co_return end(std::move(written).error());
      continue;
    }
    // After an error of the peer's nghttp2 only sends a last GOAWAY.
    if (nghttp2_session_want_read(session_) == 0)
      co_return end(make_error(Code::kCorrupt, "answer of {} breaks the rules of HTTP/2", peer()));
    if (leaving_ && streams_.empty())
      co_return end(make_error(Code::kUnavailable, "the connection to {} has ended", peer()));
    if (out_.capacity() > kKeepOut) free_text(out_);
    co_await output_.wait();
  }
}

bool H2ClientConnection::collect_output() {
  for (;;) {
    const std::uint8_t* data = nullptr;
    auto size = nghttp2_session_mem_send(session_, &data);
    if (size < 0) return false;
    if (size == 0) return true;
    out_.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
    if (out_.size() >= (room_.wide() ? kLargeRead : kSmallWrite)) return true;
  }
}

// Closes the connection; requests without a complete answer fail by `why`.
void H2ClientConnection::end(Error why) {
  if (over_) return;
  over_ = true;
  stream_->close();
  auto streams = std::move(streams_);
  streams_.clear();
  for (auto& [id, stream] : streams) {
    std::optional<Error> failure;
    if (!(stream->end_received && stream->head_done)) failure = why;
    if (failure && !stream->head_sent) failure = std::move(*failure).with_word(std::string(kNotProcessed));
    stream->close(std::move(failure));
  }
  output_.notify_all();
}

H2ClientConnection::StreamRef H2ClientConnection::find(std::int32_t id) const {
  auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second;
}

Error H2ClientConnection::closed_stream(const H2ClientStream& stream, std::uint32_t code) const {
  if (code == NGHTTP2_REFUSED_STREAM && !stream.head_done) {
    return make_error(Code::kUnavailable, "{} has not taken the request", peer())
        .with_word(std::string(kNotProcessed));
  }
  return make_error(Code::kUnavailable, "{} ended the stream in the middle of an answer: {}", peer(),
                    nghttp2_http2_strerror(code));
}

void H2ClientConnection::resume(H2ClientStream& stream) {
  if (over_ || stream.closed) return;
  nghttp2_session_resume_data(session_, stream.id);
  output_.notify_all();
}

void H2ClientConnection::release(H2ClientStream& stream, std::size_t bytes) {
  if (bytes == 0) return;
  room_.left(over_ ? nullptr : session_, stream.id, stream.closed, stream, bytes);
  output_.notify_all();
}

void H2ClientConnection::drop(H2ClientStream& stream) {
  stream.dropped = true;
  stream.outgoing = {};
  release(stream, stream.buffered());
  stream.forget();
  if (over_ || stream.closed) return;
  // Whoever has gone must not make the peer go on working (and billing).
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_CANCEL);
  output_.notify_all();
}

Result<std::shared_ptr<H2Client>> make_h2_client(async::Scope& scope, async::Executor executor,
                                                 net::StreamPtr stream, H2ClientLimits limits) {
  auto made = std::make_shared<H2ClientConnection>(executor, std::move(stream), limits);
  TRY_VOID(made->start_session());
  scope.spawn("h2 client reader", made->read_loop());
  scope.spawn("h2 client writer", made->write_loop());
  return std::shared_ptr<H2Client>(std::move(made));
}

}  // namespace atl::http
