// SPDX-License-Identifier: Apache-2.0
//
// Moving bytes between two streams, with back-pressure and bounded memory.
#pragma once

#include <memory>
#include <span>

#include "net/stream.h"

namespace atl::net {

// Grows while the sender fills it, so that small answers stay cheap and bulk transfers move in large steps.
class RelayBuffer {
 public:
  static constexpr std::size_t kFirst = 4 * 1024;
  static constexpr std::size_t kLargest = 256 * 1024;

  RelayBuffer() : bytes_(std::make_unique_for_overwrite<char[]>(kFirst)) {}
  std::span<char> space() { return {bytes_.get(), size_}; }
  std::string_view view(std::size_t used) const { return {bytes_.get(), used}; }
  // Call after the bytes have been passed on: their content is lost when the buffer grows.
  void passed_on(std::size_t used);

 private:
  std::size_t size_ = kFirst;
  std::unique_ptr<char[]> bytes_;
};

// How long a relayed connection may stay half closed without a byte.
inline constexpr auto kHalfOpenIdle = std::chrono::seconds(640);

// Both directions until both have ended. A broken side breaks the other. The idle limits of both are lifted
// until one has finished sending.
Task<> relay(Stream& a, Stream& b);
// One direction, with the end of it; on error both sides are reset.
Task<> relay_one_way(Stream& from, Stream& to);

}  // namespace atl::net
