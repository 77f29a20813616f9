// SPDX-License-Identifier: Apache-2.0
//
// BodyReader: the body of one HTTP/1 message, in whatever way it is delimited. Data goes straight from the
// socket into the caller's buffer when nothing is buffered.
#pragma once

#include <cstdint>
#include <optional>

#include "http/chunk_decoder.h"
#include "http/head_parser.h"
#include "http/input_buffer.h"

namespace atl::http {

class BodyReader {
 public:
  BodyReader() = default;
  BodyReader(Framing framing, std::uint64_t length) : framing_(framing), left_(length) {}

  // 0 = the body is complete. A body that breaks the rules gives kInvalid; a peer that ends in its middle,
  // kUnavailable.
  Task<Result<std::size_t>> read(net::Stream& stream, InputBuffer& buffer, std::span<char> out);
  bool done() const;
  Framing framing() const { return framing_; }
  // Completes when read() would probably not wait, and holds no memory of `buffer` while it does.
  Task<Result<void>> wait(net::Stream& stream, InputBuffer& buffer);
  // True when read() would not wait for the peer: with the bytes in `buffer` it has data, the end, or an
  // error.
  bool waiting(const InputBuffer& buffer) const;
  // Bytes that are still due; nullopt when only the peer knows.
  std::optional<std::uint64_t> left() const;
  // The fields after a chunked body, once it is complete.
  const Headers& trailers() const { return trailers_; }

 private:
  Task<Result<std::size_t>> read_chunked(net::Stream& stream, InputBuffer& buffer, std::span<char> out);

  Framing framing_ = Framing::kNone;
  std::uint64_t left_ = 0;  // kLength: bytes still due
  bool ended_ = false;      // kUntilClose: the peer has finished
  ChunkDecoder chunks_;
  Headers trailers_;
};

}  // namespace atl::http
