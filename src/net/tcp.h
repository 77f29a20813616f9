// SPDX-License-Identifier: Apache-2.0
//
// TCP and unix sockets: listening, connecting, also through the interface of one slot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "net/stream.h"
#include "sys/fd.h"

namespace atl::net {

struct Endpoint {
  std::string address;  // numeric IPv4 or IPv6, no name
  std::uint16_t port = 0;
};

// "127.0.0.1:80", "[::1]:80"; strict decimal port 1-65535 (0 when `allow_any_port`).
enum class AnyPort : bool { kNo, kYes };
Result<Endpoint> parse_endpoint(std::string_view text, AnyPort any = AnyPort::kNo);
bool is_loopback(const Endpoint& endpoint);

// How connect_tcp() makes its socket.
struct ConnectOptions {
  std::string interface;  // SO_BINDTODEVICE, empty for none (Linux 5.7: no capability needed)
  Steady::duration timeout = std::chrono::seconds(5);
  std::size_t send_buffer = 0;  // SO_SNDBUF, 0 for the kernel's default
};

// Errors keep their errno: ECONNREFUSED means that the port is closed.
Task<Result<StreamPtr>> connect_tcp(Endpoint endpoint, ConnectOptions options);
Task<Result<StreamPtr>> connect_unix(std::string path, Steady::duration timeout);

// A bound and listening socket. accept() waits; close() ends a pending accept with Code::kCancelled.
class Listener {
 public:
  virtual ~Listener() = default;
  // Runs out of descriptors: waits a moment and goes on, so that one burst cannot stop the server.
  virtual Task<Result<StreamPtr>> accept() = 0;
  virtual void close() = 0;
  virtual std::uint16_t port() const = 0;  // 0 for a unix socket
};

// Bind and listen. An address in use gives EADDRINUSE; a socket file that a dead process left behind is
// replaced, one that somebody listens on is not (kExists). `mode` is that of the socket file.
Result<std::unique_ptr<Listener>> listen_tcp(async::Executor executor, Endpoint endpoint);
Result<std::unique_ptr<Listener>> listen_unix(async::Executor executor, std::string path, unsigned mode);
// Takes over a socket that is already listening, for example one handed down by the runner or by systemd.
Result<std::unique_ptr<Listener>> listen_on(async::Executor executor, sys::Fd fd);

// Of an accepted connection that a firewall rule redirected to its listener: where it was going. kInvalid
// when it was not redirected: then the peer meant the listener itself. (SO_ORIGINAL_DST; Linux looks the
// connection up in the default zone of connection tracking, in the direction of the answers.)
Result<Endpoint> original_destination(Stream& stream);

// A connected pair in this process, for tests.
std::pair<StreamPtr, StreamPtr> stream_pair(async::Executor executor);

}  // namespace atl::net
