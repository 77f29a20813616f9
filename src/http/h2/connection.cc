// SPDX-License-Identifier: Apache-2.0
#include "http/h2/connection.h"

#include <memory>

#include "base/log.h"
#include "base/memory.h"
#include "http/h2/callbacks.h"
#include "http/h2/exchange.h"
#include "http/h2/fields.h"
#include "http/h2/server.h"

namespace atl::http {

namespace asio = async::asio;

namespace {
constexpr std::uint32_t kStreamWindow = 1024 * 1024;
// Where the connection has little: several that nobody reads leave something for the others.
constexpr std::uint32_t kNarrowStreamWindow = 16 * 1024;
constexpr std::size_t kSmallRead = 4 * 1024;
constexpr std::size_t kLargeRead = 64 * 1024;
constexpr std::size_t kSmallWrite = 16 * 1024;
constexpr std::size_t kKeepOut = 16 * 1024;  // output memory that an idle connection may keep
constexpr std::size_t kMaxAcks = 64;         // answers to PING and SETTINGS waiting to be sent
constexpr std::size_t kMaxContinuations = 8;
constexpr double kResetBurst = 200, kResetRate = 50;
constexpr double kControlBurst = 200, kControlRate = 50;
constexpr auto kGoodbyeTime = std::chrono::seconds(2);
constexpr auto kDeadlineTick = std::chrono::seconds(1);
constexpr auto kDeadlineGrain = std::chrono::milliseconds(5);

struct OptionFree {
  void operator()(nghttp2_option* option) const { nghttp2_option_del(option); }
};

bool was_cancelled(const asio::cancellation_state& state) {
  return state.cancelled() != asio::cancellation_type::none;
}
}  // namespace

H2Connection::H2Connection(async::Executor executor, net::StreamPtr stream, bool secure,
                           const ServerLimits& limits, const Handler& handler, Drain* drain)
    : executor_(executor),
      stream_(std::move(stream)),
      secure_(secure),
      limits_(limits),
      handler_(handler),
      drain_(drain),
      room_(limits.memory, limits.h2_window),
      resets_(kResetBurst, kResetRate),
      controls_(kControlBurst, kControlRate),
      output_(executor),
      writer_ended_(executor),
      exchange_ended_(executor),
      streams_changed_(executor),
      exchanges_(executor),
      helpers_(executor) {
  if (drain_ != nullptr) drain_->on_request([this] { start_drain(); });
}

H2Connection::~H2Connection() {
  if (drain_ != nullptr) drain_->on_request(nullptr);
  nghttp2_session_del(session_);
}

Result<void> H2Connection::start_session() {
  nghttp2_option* made = nullptr;
  if (nghttp2_option_new(&made) != 0) return make_error(Code::kInternal, "start HTTP/2: out of memory");
  std::unique_ptr<nghttp2_option, OptionFree> option(made);
  nghttp2_option_set_no_auto_window_update(made, 1);
  nghttp2_option_set_max_outbound_ack(made, kMaxAcks);
  nghttp2_option_set_max_continuations(made, kMaxContinuations);
  // nghttp2 keeps closed streams for the priority tree of RFC 7540, which nobody uses any more.
  nghttp2_option_set_no_closed_streams(made, 1);
  if (nghttp2_session_server_new2(&session_, h2_callbacks(), this, made) != 0) {
    return make_error(Code::kInternal, "start HTTP/2: out of memory");
  }
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, static_cast<std::uint32_t>(limits_.h2_streams)},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, room_.wide() ? kStreamWindow : kNarrowStreamWindow},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(limits_.head_bytes)},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  };
  if (nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings)) != 0 ||
      nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, room_.window()) != 0) {
    return make_error(Code::kInternal, "start HTTP/2: out of memory");
  }
  return success();
}

Task<> H2Connection::run(std::string prefix) {
  // This task owns others: it must not be torn out of its steps, but ends them in order.
  co_await asio::this_coro::throw_if_cancelled(false);
  if (auto started = start_session(); !started.ok()) {
    log::error("HTTP/2 connection refused", {{"reason", started.error().message()}});
    co_return;
  }
  helpers_.spawn("h2 writer", write_loop());
  helpers_.spawn("h2 deadlines", watch_deadlines());
  if (receive(prefix)) co_await read_loop();
  co_await say_goodbye();
  for (auto& [id, stream] : streams_) stream->close();
  while (live_ > 0) {
    if (was_cancelled(co_await asio::this_coro::cancellation_state)) exchanges_.cancel();
    if (live_ > 0) co_await exchange_ended_.wait();
  }
  helpers_.cancel();
  co_await async::shield();
  co_await exchanges_.join();
  co_await helpers_.join();
}

Task<> H2Connection::read_loop() {
  std::string buffer(kSmallRead, '\0');
  while (!over_) {
    stream_->set_idle_limit(asked_ ? limits_.idle_timeout : limits_.head_timeout);
    auto count = co_await stream_->read_some(buffer);
    if (!count.ok()) {
      bool quiet = count.error().code() == Code::kDeadline;
      if (quiet && live_ > 0) continue;
      if (quiet) nghttp2_session_terminate_session(session_, NGHTTP2_NO_ERROR);
      if (!quiet) stream_->close();
      co_return;
    }
    if (*count == 0) {
      stream_->close();
      co_return;
    }
    if (!receive(std::string_view(buffer).substr(0, *count))) co_return;
    if (!room_.wide()) continue;
    auto wanted = *count == buffer.size() ? kLargeRead : *count < kSmallRead ? kSmallRead : buffer.size();
    if (wanted != buffer.size()) buffer = std::string(wanted, '\0');
  }
}

bool H2Connection::receive(std::string_view bytes) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  auto used = bytes.empty() ? 0 : nghttp2_session_mem_recv(session_, data, bytes.size());
  bool ok = used >= 0;
  if (used == NGHTTP2_ERR_FLOODED || used == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS) {
    abuse_ = "control frames";
  } else if (!ok && abuse_ == nullptr) {
    nghttp2_session_terminate_session(session_, NGHTTP2_PROTOCOL_ERROR);
  }
  if (abuse_ != nullptr) {
    log::warn("HTTP/2 connection ended: the peer sends too many",
              {{"what", abuse_}, {"peer", stream_->peer()}});
    nghttp2_session_terminate_session(session_, NGHTTP2_ENHANCE_YOUR_CALM);
    ok = false;
  }
  start_exchanges();
  output_.notify_all();
  return ok &&
         (nghttp2_session_want_read(session_) != 0 || nghttp2_session_want_write(session_) != 0 || live_ > 0);
}

int H2Connection::charge(Budget& budget, const char* what) {
  if (abuse_ == nullptr && budget.take(Steady::now())) return 0;
  if (abuse_ == nullptr) abuse_ = what;
  return NGHTTP2_ERR_CALLBACK_FAILURE;
}

Task<> H2Connection::write_loop() {
  for (;;) {
    bool ok = collect_output();
    if (!ok) break;
    if (!out_.empty()) {
      stream_->set_idle_limit(limits_.body_idle);
      auto written = co_await stream_->write_all(out_);
      out_.clear();
      if (!written.ok()) break;
      continue;
    }
    if (over_) break;
    if (draining_ && live_ == 0 && streams_.empty()) {
      (void)co_await stream_->shutdown_write();
      break;
    }
    if (out_.capacity() > kKeepOut) free_text(out_);
    co_await output_.wait();
  }
  // Without a writer the connection is of no use: the reader must end too.
  if (!over_) stream_->close();
  writer_done_ = true;
  writer_ended_.notify_all();
}

bool H2Connection::collect_output() {
  for (;;) {
    const std::uint8_t* data = nullptr;
    auto size = nghttp2_session_mem_send(session_, &data);
    if (size < 0) return false;
    if (size == 0) return true;
    out_.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
    if (out_.size() >= (room_.wide() ? kLargeRead : kSmallWrite)) return true;
  }
}

Task<> H2Connection::say_goodbye() {
  over_ = true;
  output_.notify_all();
  auto deadline = Steady::now() + kGoodbyeTime;
  while (!writer_done_) {
    if (!co_await writer_ended_.wait_until(deadline)) break;
  }
  if (writer_done_) (void)co_await stream_->shutdown_write();
  stream_->close();
}

void H2Connection::start_drain() {
  if (session_ == nullptr || draining_ || over_) return;
  draining_ = true;
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session_),
                        NGHTTP2_NO_ERROR, nullptr, 0);
  output_.notify_all();
}

Task<> H2Connection::watch_deadlines() {
  for (;;) {
    if (streams_.empty()) {
      co_await streams_changed_.wait();
      continue;
    }
    auto now = Steady::now();
    auto wait = std::clamp<Steady::duration>(next_deadline() - now, kDeadlineGrain, kDeadlineTick);
    co_await async::sleep_for(wait);
    expire_late(Steady::now());
  }
}

Steady::time_point H2Connection::next_deadline() const {
  auto next = Steady::now() + kDeadlineTick;
  for (const auto& [id, stream] : streams_) {
    next = std::min({next, stream->read_deadline, stream->write_deadline});
  }
  return next;
}

void H2Connection::expire_late(Steady::time_point now) {
  for (const auto& [id, stream] : streams_) {
    if (stream->read_deadline <= now) stream->readable.notify_all();
    if (stream->write_deadline <= now) stream->writable.notify_all();
  }
}

H2Connection::StreamRef H2Connection::find(std::int32_t id) const {
  auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second;
}

void H2Connection::start_exchanges() {
  for (auto& stream : ready_) {
    ++live_;
    exchanges_.spawn("h2 exchange", run_exchange(stream));
  }
  if (!ready_.empty()) streams_changed_.notify_all();
  asked_ |= !ready_.empty();
  ready_.clear();
}

Task<> H2Connection::run_exchange(StreamRef stream) {
  struct Ended {
    H2Connection& connection;
    H2Stream& stream;
    ~Ended() { connection.exchange_over(stream); }
  };
  Ended ended{*this, *stream};
  stream->request.secure = secure_;
  stream->request.peer = stream_->peer();
  H2Exchange exchange(*this, stream);
  std::string thrown;
  try {
    if (stream->refusal) {
      co_await exchange.refuse(*stream->refusal);
    } else {
      co_await handler_(exchange);
    }
  } catch (const std::exception& failure) {
    thrown = failure.what();
  }
  if (was_cancelled(co_await asio::this_coro::cancellation_state)) {
    exchange.abort();
    co_return;
  }
  if (!thrown.empty())
    log::error("request handler threw", {{"target", exchange.request().path()}, {"what", thrown}});
  Refusal failed{500, "internal error"};
  if (!exchange.head_sent()) co_await exchange.refuse(std::move(failed));
  if (!exchange.complete()) exchange.abort();
}

void H2Connection::exchange_over(H2Stream& stream) {
  --live_;
  stream.handler_done = true;
  stream.outgoing = {};
  discard_body(stream);
  stop_upload(stream);
  output_.notify_all();
  exchange_ended_.notify_all();
}

Result<void> H2Connection::submit_head(H2Stream& stream, const ResponseHead& head, bool has_body) {
  if (over_ || stream.closed) return make_error(Code::kCancelled, "answer: the client has gone away");
  auto status = std::to_string(head.status);
  std::vector<nghttp2_nv> fields;
  fields.reserve(head.headers.size() + 1);
  fields.push_back(h2_field(":status", status));
  for (const auto& field : head.headers) {
    if (!is_hop_by_hop(field.name)) fields.push_back(h2_field(field.name, field.value));
  }
  auto provider = h2_data_provider(stream);
  int failed = nghttp2_submit_response(session_, stream.id, fields.data(), fields.size(),
                                       has_body ? &provider : nullptr);
  output_.notify_all();
  if (failed != 0) return make_error(Code::kInternal, "answer on HTTP/2: {}", nghttp2_strerror(failed));
  return success();
}

void H2Connection::resume(H2Stream& stream) {
  if (over_ || stream.closed) return;
  nghttp2_session_resume_data(session_, stream.id);
  output_.notify_all();
}

void H2Connection::release(H2Stream& stream, std::size_t bytes) {
  if (bytes == 0) return;
  room_.left(over_ ? nullptr : session_, stream.id, stream.closed, stream, bytes);
  output_.notify_all();
}

void H2Connection::discard_body(H2Stream& stream) {
  release(stream, stream.buffered());
  stream.forget();
}

void H2Connection::reset(H2Stream& stream, std::uint32_t error) {
  stream.outgoing = {};
  if (over_ || stream.closed) return;
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, error);
  output_.notify_all();
}

void H2Connection::stop_upload(H2Stream& stream) {
  // The answer is complete and nobody reads the rest of the request: the client need not send it (RFC 9113
  // §8.1).
  if (stream.handler_done && stream.end_sent && !stream.end_received) reset(stream, NGHTTP2_NO_ERROR);
}

Task<> serve_http2(net::StreamPtr stream, std::string prefix, bool secure, const ServerLimits& limits,
                   const Handler& handler, Drain* drain) {
  H2Connection connection(co_await asio::this_coro::executor, std::move(stream), secure, limits, handler,
                          drain);
  co_await connection.run(std::move(prefix));
}

}  // namespace atl::http
