// SPDX-License-Identifier: Apache-2.0
//
// Moving bytes between two streams, with back-pressure and bounded memory.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "base/fair_share.h"
#include "net/stream.h"

namespace atl::net {

// Grows while the sender fills it, so that small answers stay cheap and bulk transfers move in large steps,
// and shrinks again. Holds memory from space() to release() only, so that a stream that waits costs none.
class RelayBuffer {
 public:
  static constexpr std::size_t kFirst = 4 * 1024;
  static constexpr std::size_t kLargest = 256 * 1024;

  // What is held beyond kFirst is taken from `memory`, and the steps stay small where that has no room.
  explicit RelayBuffer(const std::optional<FairShare::User>& memory = {}) {
    if (memory) share_ = memory->open();
  }

  // Where to read to.
  std::span<char> space();
  // The first bytes of it, as read.
  std::string_view view(std::size_t used) const { return {bytes_.get(), used}; }
  // Call after the bytes have been passed on: their content is lost when the buffer changes its size.
  void passed_on(std::size_t used);
  // True when the last read filled it: the next will probably not wait.
  bool filled() const { return filled_; }
  // Before a wait: gives the memory back until space() is called again.
  void release();

 private:
  void resize(std::size_t size);

  std::size_t size_ = kFirst;
  bool filled_ = false;
  std::unique_ptr<char[]> bytes_;  // null: none is held
  std::optional<FairShare::Part> share_;
};

// How long a relayed connection may stay half closed without a byte.
inline constexpr auto kHalfOpenIdle = std::chrono::seconds(640);

// Both directions until both have ended. A broken side breaks the other. The idle limits of both are lifted
// until one has finished sending. `memory` is whose the buffers are.
Task<> relay(Stream& a, Stream& b, std::optional<FairShare::User> memory = {});
// One direction, with the end of it; on error both sides are reset.
Task<> relay_one_way(Stream& from, Stream& to, std::optional<FairShare::User> memory = {});

}  // namespace atl::net
