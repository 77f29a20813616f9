// SPDX-License-Identifier: Apache-2.0
//
// What follows from a slot's number: link, uid range, addresses. Two runners with disjoint slot ranges share
// nothing.
#pragma once

#include <cstdint>
#include <string>

#include "sys/netlink/netlink.h"

namespace atl::runner {

inline constexpr std::uint32_t kIdsPerSlot = 65536;
inline constexpr std::uint32_t kFirstId = 0x7000'0000;
// The range must end below 0x8000'0000: ids with the top bit set confuse programs that keep them signed.
inline constexpr std::uint32_t kMaxSlots = 4096;
inline constexpr char kLinkPrefix[] = "atl";

inline std::uint32_t uid_base(std::uint32_t slot) { return kFirstId + slot * kIdsPerSlot; }
inline std::string link_name(std::uint32_t slot) { return kLinkPrefix + std::to_string(slot); }
inline std::uint32_t conntrack_zone(std::uint32_t slot) { return slot + 1; }

// The host's own address on the slot's link, in 100.64.0.0/10 (RFC 6598).
inline sys::Ipv4 host_address(std::uint32_t slot) {
  std::uint32_t n = slot + 1;
  return {100, static_cast<std::uint8_t>(64 + (n >> 16)), static_cast<std::uint8_t>(n >> 8),
          static_cast<std::uint8_t>(n)};
}
// What the host calls the sandbox while it forwards: all have the same address inside, so no route could lead
// the answers back. The firewall puts it in on the way out and takes it away on the way in. 100.80.0.0/12,
// beside the host's own.
inline sys::Ipv4 alias_address(std::uint32_t slot) {
  sys::Ipv4 address = host_address(slot);
  address[1] = static_cast<std::uint8_t>(address[1] + 16);
  return address;
}
inline constexpr sys::Ipv4 kInsideAddress = {169, 254, 0, 21};   // model::kGuestAddress
inline constexpr sys::Ipv4 kGatewayAddress = {169, 254, 0, 22};  // model::kGatewayAddress
// Locally administered. Inside it is the same everywhere, as the addresses are.
inline constexpr sys::Mac kInsideMac = {0x02, 0xa7, 0x01, 0x00, 0x00, 0x15};
inline sys::Mac host_mac(std::uint32_t slot) {
  return {0x02, 0xa7, 0x02, 0x00, static_cast<std::uint8_t>(slot >> 8), static_cast<std::uint8_t>(slot)};
}

}  // namespace atl::runner
