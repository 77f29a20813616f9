// SPDX-License-Identifier: Apache-2.0
#include "http/input_buffer.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace atl::http {

void InputBuffer::consume(std::size_t count) {
  CHECK(count <= end_ - begin_, "consume {} of {} bytes", count, end_ - begin_);
  begin_ += count;
  if (begin_ == end_) begin_ = end_ = 0;
}

void InputBuffer::append(std::string_view more) {
  if (more.empty()) return;
  make_room(more.size());
  std::memcpy(bytes_.get() + end_, more.data(), more.size());
  end_ += more.size();
}

void InputBuffer::make_room(std::size_t wanted) {
  if (capacity_ - end_ >= wanted) return;
  auto held = end_ - begin_;
  if (capacity_ - held < wanted) {
    auto capacity = std::max({kInitial, held + wanted, capacity_ * 2});
    auto bytes = std::make_unique_for_overwrite<char[]>(capacity);
    if (held > 0) std::memcpy(bytes.get(), bytes_.get() + begin_, held);
    bytes_ = std::move(bytes);
    capacity_ = capacity;
  } else if (held > 0) {
    std::memmove(bytes_.get(), bytes_.get() + begin_, held);
  }
  begin_ = 0;
  end_ = held;
}

Task<Result<std::size_t>> InputBuffer::fill(net::Stream& stream, std::size_t limit) {
  auto held = end_ - begin_;
  if (held >= limit)
    co_return make_error(Code::kTooLarge, "more than {} bytes from {}", limit, stream.peer());
  if (!bytes_) CO_TRY_VOID(co_await stream.wait_readable());
  make_room(1);
  auto room = std::min(capacity_ - end_, limit - held);
  CO_TRY(std::size_t count, co_await stream.read_some(std::span(bytes_.get() + end_, room)));
  end_ += count;
  co_return count;
}

std::size_t InputBuffer::take(std::span<char> out) {
  auto count = std::min(out.size(), end_ - begin_);
  std::memcpy(out.data(), bytes_.get() + begin_, count);
  consume(count);
  return count;
}

std::string InputBuffer::take_all() {
  std::string out(data());
  begin_ = end_ = 0;
  return out;
}

void InputBuffer::shrink() {
  if (!empty()) return;
  bytes_.reset();
  capacity_ = 0;
}

}  // namespace atl::http
