// SPDX-License-Identifier: Apache-2.0
//
// DatagramSocket: a UDP socket that answers many peers. One reader, any number of senders, all on the loop
// that made it.
#pragma once

#include <memory>
#include <string>

#include "net/tcp.h"

namespace atl::net {

// One message, and who sent it or shall get it.
struct Datagram {
  std::string payload;
  Endpoint peer;
};

// Bound; open until close().
class DatagramSocket {
 public:
  virtual ~DatagramSocket() = default;
  // The next one; longer ones than `limit` bytes are cut. Errors of single datagrams are passed over;
  // kCancelled after close().
  virtual Task<Result<Datagram>> receive(std::size_t limit) = 0;
  // Sends at once or not at all: a datagram that finds no room is lost, as the network may lose any.
  virtual void send(const Datagram& datagram) = 0;
  virtual void close() = 0;
  virtual std::uint16_t port() const = 0;
};

// Binds; port 0 lets the kernel choose. An address in use gives EADDRINUSE.
Result<std::unique_ptr<DatagramSocket>> bind_udp(async::Executor executor, Endpoint endpoint);

}  // namespace atl::net
