// SPDX-License-Identifier: Apache-2.0
//
// The moving of bodies between a program inside and its upstream, with back-pressure and bounded memory.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "async/task.h"
#include "base/fair_share.h"
#include "gateway/vault/placeholder.h"
#include "http/client.h"
#include "http/server.h"

namespace atl::gateway {

inline constexpr std::size_t kMaxSignedBody = 16 << 20;  // that must be read before it can be signed
// Of all bodies that are read whole before they go on.
inline constexpr std::size_t kMaxHeldBodies = 256 << 20;
inline constexpr std::size_t kMaxHeldBodiesPerSandbox = 64 << 20;
// Of what is on its way through the gateway: the windows of HTTP/2 and the buffers of relays (decision 0132).
inline constexpr std::size_t kMaxUnderWay = 512 << 20;
inline constexpr std::size_t kMaxUnderWayPerSandbox = 64 << 20;

// A body that was read whole, and the memory that it is held in.
struct HeldBody {
  std::string bytes;
  FairShare::Part share;

  // Others in their place. kExhausted, word "body_memory", when they are more than there is room for.
  Result<void> replace(std::string other);
};
// A body that is read first comes whole in this time.
inline constexpr Steady::duration kHoldWithin = std::chrono::minutes(5);
// Reads the client's body, at most `most` bytes (kTooLarge beyond), while `held` gives `sandbox` room for it;
// kExhausted, word "body_memory", when not; kDeadline, word "body_too_slow", when it takes longer than
// `within`. What it reads through is taken from `memory`.
async::Task<Result<HeldBody>> hold_body(http::Exchange& exchange, FairShare& held, std::string sandbox,
                                        std::size_t most, FairShare::User memory,
                                        Steady::duration within = kHoldWithin);

// What holds for the body of a request.
struct SendRules {
  std::uint64_t most = UINT64_MAX;    // bytes
  std::vector<std::string> injected;  // lower-case names of headers, which no trailer may say again
  std::unique_ptr<vault::BodyResolver> resolver;  // puts values into the body as it passes; null: none
  std::function<bool()> may_resolve;              // asked before each part that `resolver` gets; empty: yes
};

// Sends the client's body on, or `read` when it was read before, with its trailers. One that may not go on
// closes the upstream's side, and `unsendable` says why. Does not end before it is cancelled.
async::Task<> send_body(http::Exchange& exchange, http::ClientExchange& upstream,
                        const std::optional<HeldBody>& read, const SendRules& rules, FairShare::User memory,
                        std::optional<Error>& unsendable);
// Tells the upstream when the client goes away before its answer is whole. Does not end before it is
// cancelled.
async::Task<> watch_client(http::Exchange& exchange, http::ClientExchange& upstream, const bool& answered);

// Hexadecimal, as AWS signatures want it.
std::string hex_sha256(std::string_view bytes);

}  // namespace atl::gateway
