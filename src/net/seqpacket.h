// SPDX-License-Identifier: Apache-2.0
//
// SeqPacket: a unix socket that keeps message boundaries (SOCK_SEQPACKET, unix(7)). One reader and any number
// of writers, all on the loop that made it.
#pragma once

#include <memory>
#include <string>

#include "async/task.h"
#include "base/result.h"
#include "sys/fd.h"

namespace atl::net {

using async::Task;

// A connected SOCK_SEQPACKET socket: whole messages or nothing.
class SeqPacket {
 public:
  virtual ~SeqPacket() = default;
  // One whole message; empty when the peer has closed. A message longer than `limit` gives kTooLarge and ends
  // the connection.
  virtual Task<Result<std::string>> receive(std::size_t limit) = 0;
  // Sends one message; messages leave in the order of the calls. kExhausted when too many wait to be sent.
  virtual Result<void> send(std::string message) = 0;
  virtual void close() = 0;
};

// Shared, since the receiving task and the senders hold it.
using SeqPacketPtr = std::shared_ptr<SeqPacket>;

// Connects to the socket file at `path`.
Task<Result<SeqPacketPtr>> connect_seqpacket(std::string path);
// Takes over a connected socket.
SeqPacketPtr adopt_seqpacket(async::Executor executor, sys::Fd fd);
// A connected pair in this process, for tests.
std::pair<SeqPacketPtr, SeqPacketPtr> seqpacket_pair(async::Executor executor);

}  // namespace atl::net
