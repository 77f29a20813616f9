// SPDX-License-Identifier: Apache-2.0
//
// InputBuffer: bytes received and not used yet. Holds no memory while it is empty and told so.
#pragma once

#include <memory>

#include "net/stream.h"

namespace atl::http {

using async::Task;

// Grows by need up to the limit that each read names. Waits for the first bytes without memory.
class InputBuffer {
 public:
  static constexpr std::size_t kInitial = 4 * 1024;

  InputBuffer() = default;
  explicit InputBuffer(std::string_view initial) { append(initial); }

  std::string_view data() const { return {bytes_.get() + begin_, end_ - begin_}; }
  bool empty() const { return begin_ == end_; }
  void consume(std::size_t count);
  void append(std::string_view more);
  // Reads once from `stream`, growing the buffer up to `limit` bytes in all. 0 = the peer has finished.
  Task<Result<std::size_t>> fill(net::Stream& stream, std::size_t limit);
  // Moves up to out.size() bytes out.
  std::size_t take(std::span<char> out);
  std::string take_all();
  // Gives the memory back, if nothing is held in it.
  void shrink();

 private:
  void make_room(std::size_t wanted);

  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace atl::http
