// SPDX-License-Identifier: Apache-2.0
#include "net/seqpacket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <deque>

#include "base/check.h"

namespace atl::net {
namespace {

namespace asio = async::asio;
using Protocol = asio::generic::seq_packet_protocol;

constexpr std::size_t kMaxQueued = 8192;  // messages that wait because the peer reads slowly

class AsioSeqPacket final : public SeqPacket, public std::enable_shared_from_this<AsioSeqPacket> {
 public:
  explicit AsioSeqPacket(Protocol::socket socket) : socket_(std::move(socket)) {}

  Task<Result<std::string>> receive(std::size_t limit) override {
    auto self = shared_from_this();
    std::string message(limit + 1, '\0');  // one more, so that a longer message shows itself
    asio::socket_base::message_flags flags = 0;
    auto [error, size] = co_await socket_.async_receive(asio::buffer(message), flags, async::use_result);
    if (error == asio::error::eof || (!error && size == 0)) co_return std::string();
    if (error) co_return async::from_asio(error, "receive a message");
    if (size > limit || (flags & MSG_TRUNC) != 0) {
      close();
      co_return make_error(Code::kTooLarge, "a message of more than {} bytes arrived", limit);
    }
    message.resize(size);
    co_return message;
  }

  Result<void> send(std::string message) override {
    if (!socket_.is_open()) return make_error(Code::kUnavailable, "send a message: the connection is closed");
    if (queue_.size() >= kMaxQueued)
      return make_error(Code::kExhausted, "send a message: {} wait already", queue_.size());
    queue_.push_back(std::move(message));
    if (queue_.size() == 1) send_next();
    return {};
  }

  void close() override {
    boost::system::error_code ignored;  // the connection goes away in any case
    socket_.close(ignored);
  }

 private:
  void send_next() {
    socket_.async_send(asio::buffer(queue_.front()), 0, [self = shared_from_this()](auto error, std::size_t) {
      self->queue_.pop_front();
      if (error) {
        self->close();
        self->queue_.clear();
      } else if (!self->queue_.empty()) {
        self->send_next();
      }
    });
  }

  Protocol::socket socket_;
  std::deque<std::string> queue_;
};

}  // namespace

Task<Result<SeqPacketPtr>> connect_seqpacket(std::string path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    co_return make_error(Code::kInvalid, "connect to {}: the path is longer than a unix socket's may be",
                         path);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size());
  Protocol::socket socket(co_await asio::this_coro::executor, Protocol(AF_UNIX, 0));
  Protocol::endpoint endpoint(&address, sizeof address);
  auto [error] = co_await socket.async_connect(endpoint, async::use_result);
  if (error) co_return async::from_asio(error, "connect to " + path);
  co_return std::make_shared<AsioSeqPacket>(std::move(socket));
}

SeqPacketPtr adopt_seqpacket(async::Executor executor, sys::Fd fd) {
  Protocol::socket socket(executor, Protocol(AF_UNIX, 0), fd.release());
  return std::make_shared<AsioSeqPacket>(std::move(socket));
}

std::pair<SeqPacketPtr, SeqPacketPtr> seqpacket_pair(async::Executor executor) {
  int fds[2];
  CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0, "socketpair: errno {}", errno);
  return {adopt_seqpacket(executor, sys::Fd(fds[0])), adopt_seqpacket(executor, sys::Fd(fds[1]))};
}

}  // namespace atl::net
