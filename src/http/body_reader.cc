// SPDX-License-Identifier: Apache-2.0
#include "http/body_reader.h"

#include <algorithm>

#include "http/trailers.h"

namespace atl::http {
namespace {
// Read ahead while looking for the framing of chunks; small chunks then come many to a read.
constexpr std::size_t kFramingWindow = 16 * 1024;

// From the buffer if it holds anything, else from the socket.
Task<Result<std::size_t>> read_raw(net::Stream& stream, InputBuffer& buffer, std::span<char> out) {
  if (!buffer.empty()) co_return buffer.take(out);
  co_return co_await stream.read_some(out);
}

Error cut_short(const net::Stream& stream) {
  return make_error(Code::kUnavailable, "{} closed the connection in the middle of a message body",
                    stream.peer());
}

std::span<char> at_most(std::span<char> out, std::uint64_t count) {
  return out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), count)));
}
}  // namespace

std::optional<std::uint64_t> BodyReader::left() const {
  if (done()) return 0;
  return framing_ == Framing::kLength ? std::optional(left_) : std::nullopt;
}

bool BodyReader::waiting(const InputBuffer& buffer) const {
  if (done()) return true;
  if (buffer.empty()) return false;
  if (framing_ != Framing::kChunked || chunks_.data_left() > 0) return true;
  // The framing between two chunks may be all that is here.
  auto ahead = chunks_;
  auto eaten = ahead.eat_framing(buffer.data());
  return !eaten.ok() || ahead.done() || (ahead.data_left() > 0 && *eaten < buffer.data().size());
}

bool BodyReader::done() const {
  switch (framing_) {
    case Framing::kNone: return true;
    case Framing::kLength: return left_ == 0;
    case Framing::kChunked: return chunks_.done();
    case Framing::kUntilClose: return ended_;
  }
  return true;
}

Task<Result<std::size_t>> BodyReader::read(net::Stream& stream, InputBuffer& buffer, std::span<char> out) {
  if (done()) co_return std::size_t{0};
  if (framing_ == Framing::kChunked) co_return co_await read_chunked(stream, buffer, out);
  if (framing_ == Framing::kUntilClose) {
    CO_TRY(std::size_t count, co_await read_raw(stream, buffer, out));
    ended_ = count == 0;
    co_return count;
  }
  CO_TRY(std::size_t count, co_await read_raw(stream, buffer, at_most(out, left_)));
  if (count == 0) co_return cut_short(stream);
  left_ -= count;
  co_return count;
}

Task<Result<void>> BodyReader::wait(net::Stream& stream, InputBuffer& buffer) {
  if (done() || waiting(buffer)) co_return success();
  // What is here is the framing between two chunks, and not all of it.
  if (!buffer.empty()) {
    CO_TRY(std::size_t eaten, chunks_.eat_framing(buffer.data()));
    buffer.consume(eaten);
  }
  buffer.shrink();
  co_return co_await stream.wait_readable();
}

Task<Result<std::size_t>> BodyReader::read_chunked(net::Stream& stream, InputBuffer& buffer,
                                                   std::span<char> out) {
  while (chunks_.data_left() == 0) {
    if (buffer.empty()) {
      CO_TRY(std::size_t count, co_await buffer.fill(stream, kFramingWindow));
      if (count == 0) co_return cut_short(stream);
    }
    CO_TRY(std::size_t eaten, chunks_.eat_framing(buffer.data()));
    buffer.consume(eaten);
    if (!chunks_.done()) continue;
    CO_TRY(trailers_, parse_trailers(chunks_.trailer()));
    co_return std::size_t{0};
  }
  CO_TRY(std::size_t count, co_await read_raw(stream, buffer, at_most(out, chunks_.data_left())));
  if (count == 0) co_return cut_short(stream);
  chunks_.took_data(count);
  co_return count;
}

}  // namespace atl::http
