// SPDX-License-Identifier: Apache-2.0
#include "net/datagram.h"

#include <netinet/in.h>

#include <cerrno>

#include "net/socket.h"

namespace atl::net {
namespace {

namespace asio = async::asio;

class AsioDatagramSocket final : public DatagramSocket {
 public:
  explicit AsioDatagramSocket(asio::ip::udp::socket socket) : socket_(std::move(socket)) {}

  Task<Result<Datagram>> receive(std::size_t limit) override {
    std::string buffer(limit, '\0');
    while (socket_.is_open()) {
      asio::ip::udp::endpoint from;
      auto [error, size] = co_await socket_.async_receive_from(asio::buffer(buffer), from, async::use_result);
      if (error == asio::error::operation_aborted || error == asio::error::bad_descriptor) break;
      if (error) continue;  // an ICMP error of an earlier answer
      buffer.resize(size);
      co_return Datagram{std::move(buffer), {from.address().to_string(), from.port()}};
    }
    co_return make_error(Code::kCancelled, "receive a datagram: the socket was closed");
  }

  void send(const Datagram& datagram) override {
    boost::system::error_code ignored;
    auto address = asio::ip::make_address(datagram.peer.address, ignored);
    if (ignored) return;
    socket_.send_to(asio::buffer(datagram.payload), {address, datagram.peer.port}, 0, ignored);
  }

  void close() override {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }
  std::uint16_t port() const override {
    boost::system::error_code ignored;
    return socket_.local_endpoint(ignored).port();
  }

 private:
  asio::ip::udp::socket socket_;
};

}  // namespace

Result<std::unique_ptr<DatagramSocket>> bind_udp(async::Executor executor, Endpoint endpoint) {
  boost::system::error_code error;
  auto address = asio::ip::make_address(endpoint.address, error);
  asio::ip::udp::endpoint local(address, endpoint.port);
  asio::ip::udp::socket socket(executor);
  if (!error) socket.open(local.protocol(), error);
  if (!error) socket.bind(local, error);
  if (!error) socket.non_blocking(true, error);
  if (error) return async::from_asio(error, fmt::format("bind UDP {}:{}", endpoint.address, endpoint.port));
  return std::unique_ptr<DatagramSocket>(std::make_unique<AsioDatagramSocket>(std::move(socket)));
}

}  // namespace atl::net
