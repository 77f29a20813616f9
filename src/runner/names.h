// SPDX-License-Identifier: Apache-2.0
//
// What follows from a slot's number: link, uid range, addresses. Two runners with disjoint slot ranges share
// nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/slot_address.h"
#include "sys/netlink/netlink.h"

namespace atl::runner {

inline constexpr std::uint32_t kIdsPerSlot = 65536;
inline constexpr std::uint32_t kFirstId = 0x7000'0000;
// The range must end below 0x8000'0000: ids with the top bit set confuse programs that keep them signed.
using model::kMaxSlots;
inline constexpr char kLinkPrefix[] = "atl";

// The first id of the slot's range on this host.
inline std::uint32_t uid_base(std::uint32_t slot) { return kFirstId + slot * kIdsPerSlot; }
inline std::string link_name(std::uint32_t slot) { return kLinkPrefix + std::to_string(slot); }
inline std::uint32_t conntrack_zone(std::uint32_t slot) { return slot + 1; }

// Of a slot.
using model::alias_address;  // model/slot_address.h
using model::host_address;
using model::label_address;
using model::label_alias;
inline constexpr sys::Ipv4 kInsideAddress = {169, 254, 0, 21};   // model::kGuestAddress
inline constexpr sys::Ipv4 kGatewayAddress = {169, 254, 0, 22};  // model::kGatewayAddress
// Locally administered. Inside it is the same everywhere, as the addresses are.
inline constexpr sys::Mac kInsideMac = {0x02, 0xa7, 0x01, 0x00, 0x00, 0x15};
inline sys::Mac host_mac(std::uint32_t slot) {
  return {0x02, 0xa7, 0x02, 0x00, static_cast<std::uint8_t>(slot >> 8), static_cast<std::uint8_t>(slot)};
}

inline constexpr std::string_view kHostAddresses = "100.64.0.0/12";  // of host_address()

}  // namespace atl::runner
