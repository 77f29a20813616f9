// SPDX-License-Identifier: Apache-2.0
#include "net/socket_stream.h"

#include <array>
#include <cerrno>

#include "base/check.h"

namespace atl::net {

namespace asio = async::asio;
using async::use_result;

namespace {
constexpr unsigned kMaxStreak = 32;
// How often wait_closed() looks again while unread bytes hide the end of the stream.
constexpr auto kClosedCheck = std::chrono::milliseconds(250);

constexpr auto kFirstLook = std::chrono::milliseconds(1);

asio::const_buffer buffer_of(std::string_view text) { return {text.data(), text.size()}; }

// Drops `done` bytes from the front of `parts`; true when all are gone.
bool drop_sent(std::span<asio::const_buffer>& parts, std::size_t done) {
  while (!parts.empty() && done >= parts.front().size()) {
    done -= parts.front().size();
    parts = parts.subspan(1);
  }
  if (parts.empty()) return true;
  parts.front() += done;
  return false;
}

bool was_cancelled(const asio::cancellation_state& state) {
  return state.cancelled() != asio::cancellation_type::none;
}

// A view of the remaining parts in the form that Asio takes as a buffer sequence.
struct Parts {
  using value_type = asio::const_buffer;
  using const_iterator = const asio::const_buffer*;
  explicit Parts(std::span<const asio::const_buffer> all)
      : first(all.data()), last(all.data() + all.size()) {}
  const_iterator first, last;
  const_iterator begin() const { return first; }
  const_iterator end() const { return last; }
};
}  // namespace

SocketStream::SocketStream(async::Executor executor, sys::Fd fd, int family, std::string peer)
    : socket_(executor, asio::generic::stream_protocol(family, 0), fd.release()),
      closed_check_(executor),
      watchdog_(std::make_shared<Watchdog>(executor, [this] { expire(); })),
      peer_(std::move(peer)) {
  boost::system::error_code ignored;
  socket_.non_blocking(true, ignored);
}

SocketStream::~SocketStream() { watchdog_->stop(); }

void SocketStream::expire() {
  // Ends both directions; the one that is not late sees that and repeats its operation.
  boost::system::error_code ignored;
  socket_.cancel(ignored);
}

std::optional<Error> SocketStream::judge(const boost::system::error_code& error, bool cancelled, Side side,
                                         const char* what) const {
  if (error == asio::error::operation_aborted && socket_.is_open()) {
    if (watchdog_->late(side)) {
      return make_error(Code::kDeadline, "{} {}: no progress within the time limit", what, peer_);
    }
    if (!cancelled) return std::nullopt;
  }
  return async::from_asio(error, fmt::format("{} {}", what, peer_));
}

Error SocketStream::closed(const char* what) const {
  return make_error(Code::kCancelled, "{} {}: the connection was closed on this side", what, peer_);
}

bool SocketStream::others_wait() {
  if (++streak_ < kMaxStreak) return false;
  streak_ = 0;
  return true;
}

Task<Result<std::size_t>> SocketStream::read_some(std::span<char> out) {
  CHECK(!out.empty(), "read into an empty buffer");
  if (!socket_.is_open()) co_return closed("read from");
  asio::mutable_buffer buffer(out.data(), out.size());
  if (read_more_) {
    boost::system::error_code error;
    std::size_t count = socket_.read_some(buffer, error);
    if (!error) {
      read_more_ = count == out.size();
      if (others_wait()) co_await async::yield();
      co_return count;
    }
  }
  streak_ = 0;
  watchdog_->begin(Side::kRead, limit_);
  for (;;) {
    auto [error, count] = co_await socket_.async_read_some(buffer, use_result);
    if (!error || error == asio::error::eof) {
      watchdog_->end(Side::kRead);
      read_more_ = count == out.size();
      co_return count;
    }
    auto failure =
        judge(error, was_cancelled(co_await asio::this_coro::cancellation_state), Side::kRead, "read from");
    if (!failure) continue;
    watchdog_->end(Side::kRead);
    co_return *std::move(failure);
  }
}

Task<Result<void>> SocketStream::wait_readable() {
  if (!socket_.is_open()) co_return closed("read from");
  streak_ = 0;
  watchdog_->begin(Side::kRead, limit_);
  for (;;) {
    auto [error] = co_await socket_.async_wait(asio::socket_base::wait_read, use_result);
    if (!error) break;
    auto failure =
        judge(error, was_cancelled(co_await asio::this_coro::cancellation_state), Side::kRead, "read from");
    if (!failure) continue;
    watchdog_->end(Side::kRead);
    co_return *std::move(failure);
  }
  watchdog_->end(Side::kRead);
  read_more_ = true;
  co_return success();
}

Task<Result<void>> SocketStream::write_parts(std::array<asio::const_buffer, 3> all) {
  if (!socket_.is_open()) co_return closed("write to");
  std::span<asio::const_buffer> parts(all);
  boost::system::error_code error;
  if (drop_sent(parts, 0)) co_return success();
  std::size_t count = socket_.write_some(Parts(parts), error);
  if (!error && drop_sent(parts, count)) {
    if (others_wait()) co_await async::yield();
    co_return success();
  }
  if (error && error != asio::error::would_block) {
    co_return async::from_asio(error, fmt::format("write to {}", peer_));
  }
  streak_ = 0;
  auto limit = limit_;
  watchdog_->begin(Side::kWrite, limit);
  for (;;) {
    auto [failed, sent] = co_await socket_.async_write_some(Parts(parts), use_result);
    if (!failed && drop_sent(parts, sent)) break;
    if (!failed) {
      watchdog_->begin(Side::kWrite, limit);
      continue;
    }
    auto failure =
        judge(failed, was_cancelled(co_await asio::this_coro::cancellation_state), Side::kWrite, "write to");
    if (!failure) continue;
    watchdog_->end(Side::kWrite);
    co_return *std::move(failure);
  }
  watchdog_->end(Side::kWrite);
  co_return success();
}

Task<Result<void>> SocketStream::write_all(std::string_view data) { return write_parts({buffer_of(data)}); }

Task<Result<void>> SocketStream::write_all(std::string_view first, std::string_view second) {
  return write_parts({buffer_of(first), buffer_of(second)});
}

Task<Result<void>> SocketStream::write_all(std::string_view first, std::string_view second,
                                           std::string_view third) {
  return write_parts({buffer_of(first), buffer_of(second), buffer_of(third)});
}

Task<Result<void>> SocketStream::shutdown_write() {
  boost::system::error_code error;
  socket_.shutdown(asio::socket_base::shutdown_send, error);
  if (error) co_return async::from_asio(error, fmt::format("shut down {}", peer_));
  co_return success();
}

void SocketStream::close(Close how) {
  if (!socket_.is_open()) return;
  if (how == Close::kReset) reset_on_close(socket_.native_handle());
  boost::system::error_code ignored;
  socket_.close(ignored);
  closed_check_.cancel();
}

Task<> SocketStream::wait_closed() {
  while (socket_.is_open()) {
    auto state = socket_state(socket_.native_handle());
    if (state.peer_closed) co_return;
    if (state.readable) {
      // Waiting for readability would return at once, again and again, until somebody reads.
      closed_check_.expires_after(kClosedCheck);
      co_await closed_check_.async_wait(use_result);
    } else {
      co_await socket_.async_wait(asio::socket_base::wait_read, use_result);
    }
    if (was_cancelled(co_await asio::this_coro::cancellation_state)) co_return;
  }
}

// KERNEL: who closes a socket without having read everything sends RST (tcp(7): RFC 2525 2.17), which leaves
// an error on ours; who shuts only its writing side down, or has read everything, does not.
Task<bool> SocketStream::refused(Steady::duration limit) {
  auto until = Steady::now() + limit;
  auto pause = kFirstLook;
  while (socket_.is_open()) {
    auto state = socket_state(socket_.native_handle());
    if (state.refused) co_return true;
    if (!state.peer_closed || Steady::now() >= until) co_return false;
    closed_check_.expires_after(pause);
    co_await closed_check_.async_wait(use_result);
    if (was_cancelled(co_await asio::this_coro::cancellation_state)) co_return false;
    pause = std::min(pause * 2, kClosedCheck);
  }
  co_return false;
}

bool SocketStream::quiet() const {
  if (!socket_.is_open()) return false;
  // native_handle() is not const although it changes nothing.
  auto fd = const_cast<asio::generic::stream_protocol::socket&>(socket_).native_handle();
  auto state = socket_state(fd);
  return !state.peer_closed && !state.readable;
}

Task<Result<void>> SocketStream::connect(SocketAddress address, Steady::duration limit) {
  auto what = fmt::format("connect to {}", peer_);
  if (::connect(socket_.native_handle(), address.get(), address.length) != 0) {
    // A unix socket with a full backlog gives EAGAIN, which means refusal here: there is nothing to wait for.
    if (errno != EINPROGRESS) co_return Error::from_errno(errno, what);
    watchdog_->begin(Side::kWrite, limit);
    for (;;) {
      auto [error] = co_await socket_.async_wait(asio::socket_base::wait_write, use_result);
      if (!error) break;
      auto failure = judge(error, was_cancelled(co_await asio::this_coro::cancellation_state), Side::kWrite,
                           "connect to");
      if (failure) co_return *std::move(failure);
    }
    watchdog_->disarm();
  }
  if (int error = pending_error(socket_.native_handle())) co_return Error::from_errno(error, what);
  co_return success();
}

}  // namespace atl::net
