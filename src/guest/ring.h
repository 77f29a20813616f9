// SPDX-License-Identifier: Apache-2.0
//
// Ring: the last output of one process, addressed by absolute offsets. Pure memory, no I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace atl::guest {

enum class Channel : std::uint8_t { kStdout, kStderr, kPty };
std::string_view channel_name(Channel channel);  // "stdout", "stderr", "pty"

// Offsets count the output bytes of all channels together, in the order in which they were read.
class Ring {
 public:
  struct Piece {
    std::uint64_t offset = 0;  // of data's first byte; larger than asked for when output was lost
    Channel channel = Channel::kStdout;
    std::string_view data;  // empty: nothing there yet. Valid until the next append or trim.
  };

  void append(Channel channel, std::string_view data);
  // Drops the oldest output, but keeps the last `capacity` bytes whole: up to a block more stays held.
  void trim(std::size_t capacity);
  // Output of one channel from `offset` on, at most `limit` bytes.
  Piece at(std::uint64_t offset, std::size_t limit) const;

  std::uint64_t begin() const { return begin_; }  // oldest byte held
  std::uint64_t end() const { return end_; }      // one past the newest
  std::size_t size() const { return static_cast<std::size_t>(end_ - begin_); }

 private:
  struct Block {
    std::uint64_t offset;
    Channel channel;
    std::string data;
  };
  std::deque<Block> blocks_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace atl::guest
