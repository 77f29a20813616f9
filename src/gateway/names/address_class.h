// SPDX-License-Identifier: Apache-2.0
//
// What an address is good for, by the registries of special addresses (RFC 6890 and its successors) and the
// known metadata services of clouds. Only kPublic ones are "the world".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "gateway/names/ip_address.h"

namespace atl::gateway {

// The kinds of addresses. What is refused is told to people by the name of its kind.
enum class AddressClass : std::uint8_t {
  kPublic,
  kUnspecified,    // 0.0.0.0/8, ::
  kLoopback,       // 127.0.0.0/8, ::1
  kLinkLocal,      // 169.254.0.0/16, fe80::/10
  kMetadata,       // metadata services of clouds, wherever they are
  kPrivate,        // RFC 1918
  kCarrierNat,     // 100.64.0.0/10; slots have their addresses there
  kUniqueLocal,    // fc00::/7
  kMulticast,      // 224.0.0.0/4, ff00::/8
  kBroadcast,      // 255.255.255.255
  kBenchmark,      // 198.18.0.0/15 (the gateway's synthetic addresses), 2001:2::/48
  kDocumentation,  // 192.0.2.0/24 and its like
  kReserved,       // everything else that is not handed out, and relics of tunnels
};
std::string_view address_class_name(AddressClass kind);  // "link-local"

// An IPv6 address that carries an IPv4 one (compatible, translated, NAT64, 6to4, Teredo, ISATAP) is what the
// carried one is, unless that is public; then only NAT64's is public, and the others are kReserved, because
// nothing is served there.
AddressClass classify(const IpAddress& address);

// The IPv4 addresses that `address` carries inside it, by any of these forms: none, one, or both of Teredo's.
std::vector<IpAddress> carried_addresses(const IpAddress& address);

// True when a tenant's rule that names a block may open addresses of this kind. Never so for those that lead
// to this machine, to other sandboxes or to a cloud's keys.
bool may_be_opened(AddressClass kind);
// True when the whole block lies in one range of such addresses: "10.0.0.0/8" does, "0.0.0.0/0" does not, so
// nobody opens them by the way.
bool names_openable(const Cidr& block);

}  // namespace atl::gateway
