// SPDX-License-Identifier: Apache-2.0
//
// Stream: a connected byte stream (TCP, unix socket, TLS). Everything above net/ speaks to peers through it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "async/task.h"
#include "base/result.h"

namespace atl::net {

using async::Task;

// Pinned resource: one reader and one writer at a time, both on the loop that made it.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  // Reads at least one byte into `out`; 0 means that the peer has finished sending.
  virtual Task<Result<std::size_t>> read_some(std::span<char> out) = 0;
  // Completes when read_some() would probably not wait, with the same errors and the same limit: whoever may
  // have to wait for long holds no buffer meanwhile.
  virtual Task<Result<void>> wait_readable() = 0;
  // Writes all of `data`, which must stay valid until the task ends.
  virtual Task<Result<void>> write_all(std::string_view data) = 0;
  // Writes both parts in order, as one vectored write where the transport can.
  virtual Task<Result<void>> write_all(std::string_view first, std::string_view second) = 0;
  virtual Task<Result<void>> write_all(std::string_view first, std::string_view second,
                                       std::string_view third) = 0;
  // Tells the peer that no more bytes come. Reading goes on.
  virtual Task<Result<void>> shutdown_write() = 0;
  // Drops the connection at once; pending operations end with Code::kCancelled. `reset` sends RST where the
  // transport can, so that the peer sees a broken connection and not a clean end.
  enum class Close { kNormal, kReset };
  virtual void close(Close how = Close::kNormal) = 0;
  // A read or write that makes no progress for `limit` ends with Code::kDeadline. Zero means no limit.
  virtual void set_idle_limit(Steady::duration limit) = 0;
  // Completes when the peer has closed or reset the connection, or when close() is called. Consumes no bytes:
  // if unread bytes arrive instead, it waits on.
  virtual Task<> wait_closed() = 0;
  // After a write: true when the peer has thrown away what it was sent. Who has finished sending may have
  // gone or may still read, so then this waits, for at most `limit`; of others it tells what is known now.
  virtual Task<bool> refused(Steady::duration limit) {
    (void)limit;
    co_return false;
  }
  // True while the connection is open and has nothing to read: only then may a kept connection be used again.
  virtual bool quiet() const = 0;
  // "127.0.0.1:4711" or "unix"; for logs.
  virtual std::string peer() const = 0;
};

// How connections are passed on; never null where one is expected.
using StreamPtr = std::unique_ptr<Stream>;

}  // namespace atl::net
