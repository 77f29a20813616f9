// SPDX-License-Identifier: Apache-2.0
#include "net/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace atl::net {
namespace {
template <class T>
void set_option(int fd, int level, int name, const T& value) {
  // Tuning only: a socket on which it fails still works.
  (void)setsockopt(fd, level, name, &value, sizeof value);
}
}  // namespace

Result<SocketAddress> to_socket_address(const Endpoint& endpoint) {
  SocketAddress out;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (inet_pton(AF_INET, endpoint.address.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(endpoint.port);
    std::memcpy(&out.storage, &v4, sizeof v4);
    out.length = sizeof v4;
    return out;
  }
  if (inet_pton(AF_INET6, endpoint.address.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(endpoint.port);
    std::memcpy(&out.storage, &v6, sizeof v6);
    out.length = sizeof v6;
    return out;
  }
  return make_error(Code::kInvalid, "'{}' is not a numeric IPv4 or IPv6 address", endpoint.address);
}

Result<SocketAddress> unix_address(const std::string& path) {
  SocketAddress out;
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return make_error(Code::kInvalid, "socket path '{}' must have 1 to {} bytes", path,
                      sizeof address.sun_path - 1);
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  std::memcpy(&out.storage, &address, sizeof address);
  out.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return out;
}

std::string describe(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return fmt::format("{}:{}", text, ntohs(v4.sin_port));
  }
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof v6);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    return fmt::format("[{}]:{}", text, ntohs(v6.sin6_port));
  }
  return "unix";
}

Result<sys::Fd> open_stream_socket(int family) {
  sys::Fd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return Error::from_errno(errno, "make a socket");
  return fd;
}

Result<void> bind_to_interface(int fd, const std::string& interface) {
  // Needs no capability on a socket that is not bound to a device yet: Linux 5.7, c427bfec18f2.
  if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface.data(),
                 static_cast<socklen_t>(interface.size())) != 0) {
    return Error::from_errno(errno, fmt::format("bind a socket to interface {}", interface));
  }
  return success();
}

Result<void> set_send_buffer(int fd, std::size_t bytes) {
  int value = static_cast<int>(bytes);
  if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, sizeof value) != 0) {
    return Error::from_errno(errno, "set the send buffer of a socket");
  }
  return success();
}

void tune_tcp(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

int pending_error(int fd) {
  int value = 0;
  socklen_t size = sizeof value;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &size) == 0 ? value : errno;
}

void reset_on_close(int fd) { set_option(fd, SOL_SOCKET, SO_LINGER, linger{.l_onoff = 1, .l_linger = 0}); }

SocketState socket_state(int fd) {
  pollfd query{.fd = fd, .events = POLLIN | POLLRDHUP, .revents = 0};
  if (poll(&query, 1, 0) < 0) return {.peer_closed = errno != EINTR};
  return {.peer_closed = (query.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0,
          .readable = (query.revents & POLLIN) != 0,
          .refused = (query.revents & POLLERR) != 0};
}

}  // namespace atl::net
