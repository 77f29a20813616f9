// SPDX-License-Identifier: Apache-2.0
//
// The addresses that follow from a slot's number. The runner gives them, control and the gateway tell by them
// whose a connection is.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace atl::model {

using Ipv4 = std::array<std::uint8_t, 4>;

inline constexpr std::uint32_t kMaxSlots = 4096;

// The host's own address on the slot's link, in 100.64.0.0/12 of 100.64.0.0/10 (RFC 6598).
constexpr Ipv4 host_address(std::uint32_t slot) {
  std::uint32_t n = slot + 1;
  return {100, static_cast<std::uint8_t>(64 + (n >> 16)), static_cast<std::uint8_t>(n >> 8),
          static_cast<std::uint8_t>(n)};
}

// What the host calls the sandbox while it forwards or redirects: all have the same address inside, so no
// route could lead the answers back. The firewall puts it in on the way out and takes it away on the way in.
// 100.80.0.0/12, beside the host's own.
constexpr Ipv4 alias_address(std::uint32_t slot) {
  Ipv4 address = host_address(slot);
  address[1] = static_cast<std::uint8_t>(address[1] + 16);
  return address;
}

// The slot that an alias address belongs to; nothing when it is none.
constexpr std::optional<std::uint32_t> slot_of_alias(const Ipv4& address) {
  if (address[0] != 100 || address[1] < 80) return std::nullopt;
  std::uint32_t n = static_cast<std::uint32_t>(address[1] - 80) << 16 |
                    static_cast<std::uint32_t>(address[2]) << 8 | address[3];
  if (n == 0 || n > kMaxSlots) return std::nullopt;
  return n - 1;
}

// Labels of commands have numbers from 1 on in their sandbox, in the order in which they were made.
inline constexpr std::uint32_t kMaxLabels = 15;

// The source of what a labelled process sends, as it leaves the sandbox. The same in every one.
constexpr Ipv4 label_address(std::uint32_t label) { return {169, 254, 1, static_cast<std::uint8_t>(label)}; }

static_assert(kMaxSlots <= 1u << 12);

// What the host calls such a process, as it calls the sandbox by its alias: 16 addresses for each slot, in
// 100.96.0.0/16.
constexpr Ipv4 label_alias(std::uint32_t slot, std::uint32_t label) {
  std::uint32_t n = slot << 4 | label;
  return {100, 96, static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n)};
}

// Who sends from an alias; `label` 0: a process without one.
struct Sender {
  std::uint32_t slot = 0;
  std::uint32_t label = 0;
};
constexpr std::optional<Sender> sender_of(const Ipv4& address) {
  if (address[0] == 100 && address[1] == 96) {
    std::uint32_t n = static_cast<std::uint32_t>(address[2]) << 8 | address[3];
    if ((n & kMaxLabels) == 0) return std::nullopt;
    return Sender{n >> 4, n & kMaxLabels};
  }
  auto slot = slot_of_alias(address);
  if (!slot) return std::nullopt;
  return Sender{*slot, 0};
}

}  // namespace atl::model
