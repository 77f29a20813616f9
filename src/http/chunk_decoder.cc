// SPDX-License-Identifier: Apache-2.0
#include "http/chunk_decoder.h"

#include "base/check.h"
#include "http/syntax.h"

namespace atl::http {
namespace {
constexpr int kMaxDigits = 15;  // 2^60 bytes; keeps the sum far from overflow

Error bad(std::string_view what) { return make_error(Code::kInvalid, "malformed chunked body: {}", what); }
}  // namespace

Result<std::size_t> ChunkDecoder::eat_framing(std::string_view input) {
  std::size_t eaten = 0;
  while (eaten < input.size() && state_ != State::kData && state_ != State::kDone) {
    TRY_VOID(step(input[eaten++]));
  }
  return eaten;
}

void ChunkDecoder::took_data(std::uint64_t count) {
  CHECK(state_ == State::kData && count <= data_left_, "took {} of {} bytes of a chunk", count, data_left_);
  data_left_ -= count;
  if (data_left_ == 0) state_ = State::kDataCr;
}

Result<void> ChunkDecoder::size_digit(char c) {
  int value = -1;
  if (c >= '0' && c <= '9') value = c - '0';
  if (c >= 'a' && c <= 'f') value = c - 'a' + 10;
  if (c >= 'A' && c <= 'F') value = c - 'A' + 10;
  if (value < 0) return bad(c == ';' ? "chunk extensions are not accepted" : "chunk size is not hexadecimal");
  if (++digits_ > kMaxDigits) return bad("chunk size is too long");
  size_ = size_ * 16 + static_cast<std::uint64_t>(value);
  return success();
}

Result<void> ChunkDecoder::step(char c) {
  switch (state_) {
    case State::kSize:
      if (c != '\r') return size_digit(c);
      if (digits_ == 0) return bad("empty chunk size");
      state_ = State::kSizeLf;
      return success();
    case State::kSizeLf:
      if (c != '\n') return bad("carriage return without a line feed");
      data_left_ = size_;
      state_ = size_ == 0 ? State::kTrailerStart : State::kData;
      size_ = 0;
      digits_ = 0;
      return success();
    case State::kDataCr:
      if (c != '\r') return bad("chunk is longer than its size");
      state_ = State::kDataLf;
      return success();
    case State::kDataLf:
      if (c != '\n') return bad("carriage return without a line feed");
      state_ = State::kSize;
      return success();
    case State::kTrailerStart:
      colon_seen_ = false;
      state_ = c == '\r' ? State::kEndLf : State::kTrailer;
      if (c == '\r') return success();
      if (!is_token({&c, 1})) return bad("malformed trailer field");
      trailer_ += c;
      return success();
    case State::kTrailer:
      if (trailer_.size() >= kMaxTrailerBytes) return bad("trailer is too large");
      trailer_ += c;
      if (c == '\r') {
        state_ = State::kTrailerLf;
        return colon_seen_ ? success() : bad("trailer field without a colon");
      }
      if (c == ':' && !colon_seen_) {
        colon_seen_ = true;
      } else if (!colon_seen_ ? !is_token({&c, 1}) : static_cast<unsigned char>(c) < 0x20 && c != '\t') {
        return bad("malformed trailer field");
      }
      return success();
    case State::kTrailerLf:
      if (c != '\n') return bad("carriage return without a line feed");
      trailer_ += c;
      state_ = State::kTrailerStart;
      return success();
    case State::kEndLf:
      if (c != '\n') return bad("carriage return without a line feed");
      state_ = State::kDone;
      return success();
    case State::kData:
    case State::kDone: break;
  }
  return bad("framing bytes where none belong");
}

}  // namespace atl::http
