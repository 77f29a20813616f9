// SPDX-License-Identifier: Apache-2.0
//
// The Connect protocol with its JSON codec: envelopes, error codes, and the JSON of errors.
// Wire facts: https://connectrpc.com/docs/protocol (streaming: 1 flag byte, 4 bytes big-endian length,
// payload).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace atl::http::connect {

inline constexpr std::uint8_t kEndStream = 0x02;
inline constexpr std::size_t kMaxMessage = 64 * 1024 * 1024;

// The codes of the protocol, by name: "not_found", "invalid_argument", ...
std::string_view rpc_code(Code code);
int rpc_status(std::string_view rpc_code);  // HTTP status of a unary error

// One message of a stream: flags, length, and the JSON.
std::string envelope(std::string_view json, std::uint8_t flags = 0);
// {"code":"…","message":"…"}
std::string error_json(const Error& error);
// {} or {"error":{…}} in an end-of-stream envelope.
std::string end_stream(const Error* error);

// Takes bytes in, gives whole envelopes out. Bounded by `max_message` (kTooLarge).
class EnvelopeReader {
 public:
  explicit EnvelopeReader(std::size_t max_message = kMaxMessage) : max_(max_message) {}
  struct Envelope {
    std::uint8_t flags;
    std::string payload;
  };
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  Result<std::optional<Envelope>> next();
  bool empty() const { return buffer_.size() == start_; }

 private:
  std::size_t max_;
  std::string buffer_;
  std::size_t start_ = 0;
};

}  // namespace atl::http::connect
