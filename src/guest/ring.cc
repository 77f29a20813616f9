// SPDX-License-Identifier: Apache-2.0
#include "guest/ring.h"

#include <algorithm>

namespace atl::guest {
namespace {
// Small writes are gathered into blocks of about this size, so that a process that writes byte by byte does
// not cost a block for each.
constexpr std::size_t kBlock = 16 * 1024;
}  // namespace

std::string_view channel_name(Channel channel) {
  switch (channel) {
    case Channel::kStdout: return "stdout";
    case Channel::kStderr: return "stderr";
    case Channel::kPty: return "pty";
  }
  return "stdout";
}

void Ring::append(Channel channel, std::string_view data) {
  if (data.empty()) return;
  bool gather = !blocks_.empty() && blocks_.back().channel == channel &&
                blocks_.back().data.size() + data.size() <= kBlock;
  if (gather) {
    blocks_.back().data += data;
  } else {
    blocks_.push_back({end_, channel, std::string(data)});
  }
  end_ += data.size();
}

void Ring::trim(std::size_t capacity) {
  while (!blocks_.empty() && size() - blocks_.front().data.size() >= capacity) {
    const Block& oldest = blocks_.front();
    begin_ = oldest.offset + oldest.data.size();
    blocks_.pop_front();
  }
}

Ring::Piece Ring::at(std::uint64_t offset, std::size_t limit) const {
  offset = std::max(offset, begin_);
  if (offset >= end_) return {end_, Channel::kStdout, {}};
  auto after = std::upper_bound(blocks_.begin(), blocks_.end(), offset,
                                [](std::uint64_t value, const Block& block) { return value < block.offset; });
  const Block& block = *std::prev(after);
  return {offset, block.channel, std::string_view(block.data).substr(offset - block.offset, limit)};
}

}  // namespace atl::guest
