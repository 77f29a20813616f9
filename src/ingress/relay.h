// SPDX-License-Identifier: Apache-2.0
//
// Moving bytes between a client and a guest: bodies and raw streams, with back-pressure and bounded memory.
#pragma once

#include <memory>
#include <span>

#include "ingress/flow.h"

namespace atl::ingress {

using async::Task;

// Grows while the sender fills it, so that small answers stay cheap and bulk transfers move in large steps.
class RelayBuffer {
 public:
  static constexpr std::size_t kFirst = 16 * 1024;
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

// How long a connection may stay half closed without a byte, and a client may take no bytes at all.
inline constexpr auto kHalfOpenIdle = std::chrono::seconds(640);
inline constexpr auto kClientIdle = std::chrono::seconds(620);

// Sends the client's body to the guest. A client that breaks off closes the guest's side.
Task<> relay_request_body(Flow& flow);
// Sends the guest's body to the client and ends it; breaks the answer off when the guest's broke off.
Task<> relay_response_body(Flow& flow);
// Both directions until both have ended. A broken side breaks the other.
Task<> relay_raw(Flow& flow, net::Stream& client, net::Stream& guest);

}  // namespace atl::ingress
