// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"
#include "net/socket_stream.h"

namespace atl::net {

Task<Result<StreamPtr>> connect_tcp(Endpoint endpoint, ConnectOptions options) {
  CO_TRY(SocketAddress address, to_socket_address(endpoint));
  int family = address.storage.ss_family;
  CO_TRY(sys::Fd fd, open_stream_socket(family));
  if (!options.interface.empty()) CO_TRY_VOID(bind_to_interface(fd.get(), options.interface));
  if (options.send_buffer != 0) CO_TRY_VOID(set_send_buffer(fd.get(), options.send_buffer));
  tune_tcp(fd.get());
  auto executor = co_await async::asio::this_coro::executor;
  auto stream = std::make_unique<SocketStream>(executor, std::move(fd), family, describe(address.storage));
  CO_TRY_VOID(co_await stream->connect(address, options.timeout));
  co_return StreamPtr(std::move(stream));
}

Task<Result<StreamPtr>> connect_unix(std::string path, Steady::duration timeout) {
  CO_TRY(SocketAddress address, unix_address(path));
  CO_TRY(sys::Fd fd, open_stream_socket(AF_UNIX));
  auto executor = co_await async::asio::this_coro::executor;
  auto stream = std::make_unique<SocketStream>(executor, std::move(fd), AF_UNIX, path);
  CO_TRY_VOID(co_await stream->connect(address, timeout));
  co_return StreamPtr(std::move(stream));
}

std::pair<StreamPtr, StreamPtr> stream_pair(async::Executor executor) {
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0, "socketpair failed");
  return {std::make_unique<SocketStream>(executor, sys::Fd(fds[0]), AF_UNIX, "unix"),
          std::make_unique<SocketStream>(executor, sys::Fd(fds[1]), AF_UNIX, "unix")};
}

}  // namespace atl::net
