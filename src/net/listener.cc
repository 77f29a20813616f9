// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "net/socket_stream.h"

namespace atl::net {

namespace asio = async::asio;
using async::use_result;

namespace {
constexpr int kBacklog = 4096;  // the kernel lowers it to net.core.somaxconn
constexpr auto kExhaustedPause = std::chrono::milliseconds(100);

// Errors of accept4(2) that concern one connection, which is gone; the socket itself is well.
bool is_passing(int error) {
  switch (error) {
    case ECONNABORTED:
    case EINTR:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH: return true;
    default: return false;
  }
}
bool is_exhausted(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

class SocketListener final : public Listener {
 public:
  SocketListener(async::Executor executor, sys::Fd fd, std::uint16_t port)
      : descriptor_(executor, fd.release()), pause_(executor), port_(port) {
    reserve();
  }

  Task<Result<StreamPtr>> accept() override {
    while (descriptor_.is_open()) {
      sockaddr_storage address{};
      socklen_t length = sizeof address;
      sys::Fd fd(accept4(descriptor_.native_handle(), reinterpret_cast<sockaddr*>(&address), &length,
                         SOCK_NONBLOCK | SOCK_CLOEXEC));
      int error = errno;
      if (fd) co_return wrap(std::move(fd), address);
      if (is_passing(error)) continue;
      if (is_exhausted(error)) {
        co_await shed(error);
      } else if (error == EAGAIN) {
        auto [failed] =
            co_await descriptor_.async_wait(asio::posix::stream_descriptor::wait_read, use_result);
        if (failed) co_return async::from_asio(failed, "accept a connection");
      } else {
        co_return Error::from_errno(error, "accept a connection");
      }
      auto state = co_await asio::this_coro::cancellation_state;
      if (state.cancelled() != asio::cancellation_type::none) break;
    }
    co_return make_error(Code::kCancelled, "accept a connection: the listener was closed");
  }

  void close() override {
    boost::system::error_code ignored;
    descriptor_.close(ignored);
    pause_.cancel();
  }
  std::uint16_t port() const override { return port_; }

 private:
  void reserve() { spare_ = sys::Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  StreamPtr wrap(sys::Fd fd, const sockaddr_storage& address) {
    if (address.ss_family != AF_UNIX) tune_tcp(fd.get());
    return std::make_unique<SocketStream>(descriptor_.get_executor(), std::move(fd), address.ss_family,
                                          describe(address));
  }

  // Out of descriptors: with the spare one, takes the waiting connection and drops it, so that its client
  // learns of it at once; then gives others a moment to close theirs.
  Task<> shed(int error) {
    log::warn("cannot accept connections for a moment",
              {{"reason", Error::from_errno(error, "accept").message()}});
    spare_.reset();
    { sys::Fd dropped(accept4(descriptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC)); }
    reserve();
    pause_.expires_after(kExhaustedPause);
    co_await pause_.async_wait(use_result);
  }

  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer pause_;
  sys::Fd spare_;
  std::uint16_t port_;
};

std::uint16_t port_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  return 0;
}

// A socket file that a dead process left behind would block the name for ever; a live owner is never
// disturbed.
Result<void> clear_stale_socket(const std::string& path, const SocketAddress& address) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return success();
  TRY(sys::Fd probe, open_stream_socket(AF_UNIX));
  if (::connect(probe.get(), address.get(), address.length) == 0 || errno != ECONNREFUSED) {
    return make_error(Code::kExists, "listen on {}: another process listens there", path);
  }
  if (unlink(path.c_str()) != 0) return Error::from_errno(errno, fmt::format("remove stale socket {}", path));
  return success();
}
}  // namespace

Result<std::unique_ptr<Listener>> listen_on(async::Executor executor, sys::Fd fd) {
  int flags = fcntl(fd.get(), F_GETFL);
  if (flags < 0 || fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0 ||
      fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0) {
    return Error::from_errno(errno, fmt::format("take over listening socket {}", fd.get()));
  }
  int listening = 0;
  socklen_t size = sizeof listening;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0) {
    return make_error(Code::kInvalid, "descriptor {} is not a listening socket", fd.get());
  }
  auto port = port_of(fd.get());
  return std::unique_ptr<Listener>(
      std::make_unique<SocketListener>(std::move(executor), std::move(fd), port));
}

Result<std::unique_ptr<Listener>> listen_tcp(async::Executor executor, Endpoint endpoint) {
  TRY(SocketAddress address, to_socket_address(endpoint));
  auto what = fmt::format("listen on {}", describe(address.storage));
  TRY(sys::Fd fd, open_stream_socket(address.storage.ss_family));
  int on = 1;
  if (setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
    return Error::from_errno(errno, what);
  if (::bind(fd.get(), address.get(), address.length) != 0) return Error::from_errno(errno, what);
  if (::listen(fd.get(), kBacklog) != 0) return Error::from_errno(errno, what);
  return listen_on(std::move(executor), std::move(fd));
}

Result<std::unique_ptr<Listener>> listen_unix(async::Executor executor, std::string path, unsigned mode) {
  TRY(SocketAddress address, unix_address(path));
  auto what = fmt::format("listen on {}", path);
  TRY_VOID(clear_stale_socket(path, address));
  TRY(sys::Fd fd, open_stream_socket(AF_UNIX));
  if (::bind(fd.get(), address.get(), address.length) != 0) return Error::from_errno(errno, what);
  // Nobody can connect before listen(2), so there is no moment with a wider mode.
  if (chmod(path.c_str(), mode) != 0) return Error::from_errno(errno, what);
  if (::listen(fd.get(), kBacklog) != 0) return Error::from_errno(errno, what);
  return listen_on(std::move(executor), std::move(fd));
}

}  // namespace atl::net
