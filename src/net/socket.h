// SPDX-License-Identifier: Apache-2.0
//
// The raw socket calls of net/: what Asio does not offer (close-on-exec from birth, SO_BINDTODEVICE, RST on
// close).
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "net/tcp.h"
#include "sys/fd.h"

namespace atl::net {

// An address in the form that the kernel takes.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// kInvalid when it is not numeric, or the path is too long.
Result<SocketAddress> to_socket_address(const Endpoint& endpoint);
Result<SocketAddress> unix_address(const std::string& path);
std::string describe(const sockaddr_storage& address);  // "127.0.0.1:80", "[::1]:80" or "unix"

// Non-blocking and close-on-exec.
Result<sys::Fd> open_stream_socket(int family);
Result<void> bind_to_interface(int fd, const std::string& interface);
Result<void> set_send_buffer(int fd, std::size_t bytes);
// TCP_NODELAY, and keep-alive probes so that a peer that vanished without a word is noticed within two
// minutes.
void tune_tcp(int fd);
int pending_error(int fd);    // SO_ERROR: the outcome of a connect(2) that went on in the background
void reset_on_close(int fd);  // SO_LINGER with zero seconds: close(2) sends RST

// What the kernel knows about the connection now, without consuming anything.
struct SocketState {
  bool peer_closed;       // FIN or RST has arrived, or the socket is broken
  bool readable = false;  // bytes, or the end, can be read
  bool refused = false;   // the peer has reset it
};
SocketState socket_state(int fd);

}  // namespace atl::net
