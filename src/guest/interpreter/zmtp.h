// SPDX-License-Identifier: Apache-2.0
//
// ZMTP 3.0, the wire protocol of ZeroMQ sockets (rfc.zeromq.org/spec/23), as much as a client of Jupyter
// kernels needs: the NULL mechanism, DEALER and SUB. Why it is ours: docs/decisions/0101-zmtp.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "async/task.h"
#include "base/result.h"
#include "net/stream.h"

namespace atl::guest::interpreter::zmtp {

using async::Task;

// Which kind of socket we say that we are.
enum class Type : std::uint8_t { kDealer, kSub };

// What each side sends first.
std::string greeting();
// The command that ends the handshake.
std::string ready(Type type);
// One message on the wire. `parts` must not be empty.
std::string message_bytes(std::span<const std::string> parts);

// One message of the peer. A part that did not fit into the limit is empty, and `cut` says so.
struct Message {
  std::vector<std::string> parts;
  bool cut = false;
};

// Reads what a peer sends. Pure: bytes in, messages out.
class Reader {
 public:
  // `limit`: most bytes kept of one message.
  explicit Reader(std::size_t limit) : limit_(limit) {}
  void feed(std::string_view bytes) { in_.append(bytes); }
  // The next complete message, nullopt while bytes are missing. kCorrupt when this is not ZMTP 3 without
  // security.
  Result<std::optional<Message>> next();
  bool ready() const { return ready_; }  // the handshake is over

 private:
  enum class State : std::uint8_t { kGreeting, kHead, kBody };
  Result<bool> read_greeting();
  Result<bool> read_head();
  bool read_body();
  Result<void> take_command();
  bool take_part(Message& out);

  const std::size_t limit_;
  State state_ = State::kGreeting;
  std::string in_;
  std::size_t at_ = 0;  // consumed of in_
  std::uint8_t flags_ = 0;
  std::uint64_t left_ = 0;  // of the frame's body
  bool skip_ = false;       // the body is not kept
  std::string body_;
  Message message_;
  std::size_t kept_ = 0;  // bytes of message_
  bool ready_ = false;
};

// A connected socket. One task sends and one receives at a time.
class Socket {
 public:
  explicit Socket(net::StreamPtr stream) : stream_(std::move(stream)), reader_(kept_limit()) {}

  // The handshake over `stream`; a SUB asks for everything. kCorrupt when the peer speaks something else.
  static Task<Result<std::unique_ptr<Socket>>> open(net::StreamPtr stream, Type type);
  Task<Result<void>> send(std::vector<std::string> parts);
  // kUnavailable when the peer has gone.
  Task<Result<Message>> receive();
  // Ends what waits.
  void close() { stream_->close(); }

 private:
  static std::size_t kept_limit();
  Task<Result<void>> more();

  net::StreamPtr stream_;
  Reader reader_;
  std::string buffer_;
};

}  // namespace atl::guest::interpreter::zmtp
