// SPDX-License-Identifier: Apache-2.0
//
// Heads of HTTP/1.x messages: finding their end, and parsing them strictly. Pure functions of bytes.
//
// llhttp cuts the bytes into tokens; the checks on top refuse whatever two parsers could read differently:
// both lengths, lists of lengths, folded lines, bare line feeds, unknown codings, doubtful hosts.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "http/message.h"

namespace atl::http {

// Why a message is not accepted, and the status that tells the peer.
struct Refusal {
  int status = 400;
  std::string message;
};

// What a head may be at most.
struct HeadLimits {
  std::size_t head_bytes = 64 * 1024;
  std::size_t header_count = 128;
  std::size_t target_bytes = 16 * 1024;
};

// Looks for the empty line that ends a head, in a buffer that grows. Bytes already looked at are not looked
// at again.
class HeadScanner {
 public:
  explicit HeadScanner(HeadLimits limits) : limits_(limits) {}
  // `data` is everything received since the start of the head. Gives the head's size with its empty line, 0
  // when more bytes are needed, or a refusal: too large, or a line feed without its carriage return.
  std::variant<std::size_t, Refusal> scan(std::string_view data);

 private:
  HeadLimits limits_;
  std::size_t looked_ = 0;
  std::size_t line_start_ = 0;
  std::size_t lines_ = 0;
};

// How the body of a message is delimited.
enum class Framing : std::uint8_t { kNone, kLength, kChunked, kUntilClose };

// A request head with what the connection needs to know about it.
struct ParsedRequest {
  RequestHead head;
  Framing framing = Framing::kNone;
  bool keep_alive = false;
  bool expects_continue = false;
};
// `text` is one whole head with its empty line.
std::variant<ParsedRequest, Refusal> parse_request_head(std::string_view text, const HeadLimits& limits);
// One that requests may have, in whichever version of the protocol. All of them are in upper case.
bool is_known_method(std::string_view method);

// The same for a response.
struct ParsedResponse {
  ResponseHead head;
  Framing framing = Framing::kNone;
  std::uint64_t content_length = 0;
  bool keep_alive = false;
};
// `method` is that of the request that the response answers: it decides whether a body follows (RFC 9112
// §6.3).
std::variant<ParsedResponse, Refusal> parse_response_head(std::string_view text, std::string_view method,
                                                          const HeadLimits& limits);

}  // namespace atl::http
