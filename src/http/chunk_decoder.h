// SPDX-License-Identifier: Apache-2.0
//
// The chunked coding, read strictly: RFC 9112 §7.1 without extensions. It looks at the framing only, so that
// the data of a chunk can go straight from the socket to whoever wants it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace atl::http {

class ChunkDecoder {
 public:
  static constexpr std::size_t kMaxTrailerBytes = 8 * 1024;

  // Eats framing from the front of `input` and returns how many bytes it ate. Stops before data (data_left()
  // > 0) and after the last chunk (done()); otherwise all input is eaten and more is needed. Extensions, bare
  // line feeds, overlong sizes and malformed or oversized trailers give kInvalid.
  Result<std::size_t> eat_framing(std::string_view input);
  // Tells that `count` bytes of data were taken from the stream; at most data_left().
  void took_data(std::uint64_t count);
  std::uint64_t data_left() const { return data_left_; }
  bool done() const { return state_ == State::kDone; }
  // The lines of trailer fields, each with its CRLF; whole when done().
  const std::string& trailer() const { return trailer_; }

 private:
  enum class State : std::uint8_t {
    kSize,
    kSizeLf,
    kData,
    kDataCr,
    kDataLf,
    kTrailerStart,
    kTrailer,
    kTrailerLf,
    kEndLf,
    kDone
  };
  Result<void> step(char c);
  Result<void> size_digit(char c);

  std::uint64_t data_left_ = 0;
  std::uint64_t size_ = 0;
  std::string trailer_;
  std::uint8_t digits_ = 0;
  bool colon_seen_ = false;
  State state_ = State::kSize;
};

}  // namespace atl::http
