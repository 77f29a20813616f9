// SPDX-License-Identifier: Apache-2.0
//
// Frames of WebSocket (RFC 6455 §5), without extensions: a parser for one direction, and a writer. Pure
// functions of bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace atl::http {

// What a frame is.
enum class WsOpcode : std::uint8_t {
  kContinuation = 0,
  kText = 1,
  kBinary = 2,
  kClose = 8,
  kPing = 9,
  kPong = 10
};
inline bool is_control(WsOpcode opcode) { return static_cast<std::uint8_t>(opcode) >= 8; }

// Who sends: clients must mask, servers must not.
enum class WsSender : bool { kClient, kServer };

// What a peer may send at most.
struct WebSocketLimits {
  std::uint64_t frame_bytes = 16 * 1024 * 1024;
  std::uint64_t message_bytes = 64 * 1024 * 1024;  // all frames of one message together
};

// One direction of one connection.
class WebSocketParser {
 public:
  struct Event {
    enum class Kind : std::uint8_t {
      kNeedMore,  // all input is used up
      kFrame,     // a frame begins: opcode, final, length
      kData,      // a piece of its payload, unmasked
      kEnd,       // the frame is complete
    };
    Kind kind = Kind::kNeedMore;
    WsOpcode opcode = WsOpcode::kContinuation;
    // The opcode of the message that the frame is part of: for a continuation that of its first frame.
    WsOpcode message = WsOpcode::kContinuation;
    bool final = false;
    std::uint64_t length = 0;
    std::string_view data;  // valid until the next call
  };

  explicit WebSocketParser(WsSender from, WebSocketLimits limits = {}) : from_(from), limits_(limits) {}

  // Takes bytes off the front of `in`. kInvalid for what the RFC forbids: reserved bits and opcodes, a
  // missing or forbidden mask, lengths not in their shortest form, control frames that are long or in parts,
  // parts out of order, anything after a close, a close with an impossible code; kTooLarge beyond the limits.
  // After an error nothing more may be parsed.
  Result<Event> next(std::string_view& in);
  bool closed() const { return closed_; }  // a close frame has come

 private:
  Result<bool> read_head(std::string_view& in);
  Result<void> check_head();
  Result<void> count_message();
  Event payload(std::string_view& in);
  Result<Event> end_frame();

  WsSender from_;
  WebSocketLimits limits_;
  std::array<unsigned char, 14> head_{};
  std::size_t head_size_ = 0;
  bool in_frame_ = false;
  Event frame_;  // the one that is being read
  std::uint64_t left_ = 0;
  std::array<unsigned char, 4> mask_{};
  std::uint64_t mask_at_ = 0;
  bool masked_ = false;
  std::optional<WsOpcode> message_;  // of the message that is not complete yet
  std::uint64_t message_bytes_ = 0;
  bool closed_ = false;
  std::string close_text_;  // payload of the close frame
  std::string piece_;
};

// One frame. Clients give a fresh random mask for each.
std::string websocket_frame(WsOpcode opcode, std::string_view payload, bool final = true,
                            std::optional<std::array<unsigned char, 4>> mask = std::nullopt);

}  // namespace atl::http
