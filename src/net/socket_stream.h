// SPDX-License-Identifier: Apache-2.0
//
// SocketStream: Stream on a connected (or connecting) stream socket.
#pragma once

#include <array>

#include <boost/asio/generic/stream_protocol.hpp>

#include "net/socket.h"
#include "net/watchdog.h"

namespace atl::net {

class SocketStream final : public Stream {
 public:
  // `fd` must be non-blocking; `family` is AF_INET, AF_INET6 or AF_UNIX.
  SocketStream(async::Executor executor, sys::Fd fd, int family, std::string peer);
  ~SocketStream() override;

  Task<Result<std::size_t>> read_some(std::span<char> out) override;
  Task<Result<void>> wait_readable() override;
  Task<Result<void>> write_all(std::string_view data) override;
  Task<Result<void>> write_all(std::string_view first, std::string_view second) override;
  Task<Result<void>> write_all(std::string_view first, std::string_view second,
                               std::string_view third) override;
  Task<Result<void>> shutdown_write() override;
  void close(Close how) override;
  void set_idle_limit(Steady::duration limit) override { limit_ = limit; }
  Task<> wait_closed() override;
  Task<bool> refused(Steady::duration limit) override;
  bool quiet() const override;
  std::string peer() const override { return peer_; }
  int descriptor() { return socket_.native_handle(); }

  // Starts connect(2) and waits for its end within `limit`.
  Task<Result<void>> connect(SocketAddress address, Steady::duration limit);

 private:
  using Side = Watchdog::Side;
  // One write of all parts; some may be empty.
  Task<Result<void>> write_parts(std::array<async::asio::const_buffer, 3> all);
  // What a failed operation means: nothing (repeat it), or an error.
  std::optional<Error> judge(const boost::system::error_code& error, bool cancelled, Side side,
                             const char* what) const;
  Error closed(const char* what) const;
  void expire();
  // After an operation that did not suspend: true when others should run first, so that one busy connection
  // does not starve those of its loop.
  bool others_wait();

  async::asio::generic::stream_protocol::socket socket_;
  async::asio::steady_timer closed_check_;
  std::shared_ptr<Watchdog> watchdog_;
  Steady::duration limit_{};
  std::string peer_;
  unsigned streak_ = 0;     // operations in a row that did not suspend
  bool read_more_ = false;  // the last read filled its buffer, so another one will probably not block
};

}  // namespace atl::net
