// SPDX-License-Identifier: Apache-2.0
//
// WebSocketSearch: what a server sends over a WebSocket on its way to a sandbox, with secrets taken out of
// it.
#pragma once

#include "gateway/upstream/scanner.h"
#include "http/websocket.h"

namespace atl::gateway {

// One direction of one connection, without extensions. Frames are made anew: a message that is long, or that
// may still become a secret, goes on in parts. A message is not held back beyond its end; of a secret that
// goes over several messages, what comes with the last one is taken out (decision 0135). Use from one task.
class WebSocketSearch {
 public:
  // `patterns` is never null.
  explicit WebSocketSearch(std::shared_ptr<const SecretPatterns> patterns)
      : patterns_(std::move(patterns)),
        parser_(http::WsSender::kServer, {kMost, kMost}),
        scanner_(patterns_) {}

  // Takes the next bytes and appends to `out` what goes on. kInvalid for what is no WebSocket of a server:
  // nothing more may be passed then.
  Result<void> feed(std::string_view in, std::string& out);
  // Places that held a secret and were replaced.
  std::size_t incidents() const { return scanner_.incidents() + in_control_; }

 private:
  static constexpr std::uint64_t kMost = 1ull << 62;  // nothing is held, so any length will do
  using Event = http::WebSocketParser::Event;

  void begin(const Event& frame);
  void end(const Event& frame, std::string& out);
  void send(bool final, std::string& out);
  void send_control(http::WsOpcode opcode, std::string& out);

  std::shared_ptr<const SecretPatterns> patterns_;
  http::WebSocketParser parser_;
  SecretScanner scanner_;                        // of all messages
  http::WsOpcode next_ = http::WsOpcode::kText;  // of the next part that is sent
  std::string settled_;                          // of the message, not yet sent
  std::string control_;                          // payload of the control frame that is being read
  std::size_t in_control_ = 0;                   // incidents in control frames
};

}  // namespace atl::gateway
