// SPDX-License-Identifier: Apache-2.0
//
// Links, addresses and routes through rtnetlink(7), without starting a program. Blocking; each call is one
// question and one answer of the kernel.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sys/fd.h"

struct nlmsghdr;

namespace atl::sys {

using Ipv4 = std::array<std::uint8_t, 4>;
using Mac = std::array<std::uint8_t, 6>;

// A netlink socket. It belongs to the network namespace of the thread that opened it, for ever.
// Not thread safe: one owner at a time.
class Netlink {
 public:
  static Result<Netlink> open_route();

  // A pair of linked interfaces: `inside` in this namespace, `outside` in the namespace `outside_netns`.
  Result<void> create_veth(const std::string& inside, const Mac& inside_mac, const std::string& outside,
                           const Mac& outside_mac, int outside_netns);
  Result<void> delete_link(const std::string& name);
  Result<std::uint32_t> link_index(const std::string& name);  // kNotFound when there is none
  // Names of all links that start with `prefix`.
  Result<std::vector<std::string>> links(const std::string& prefix);
  Result<void> set_up(std::uint32_t link);
  // Takes the link to another network namespace; it arrives without addresses, and down.
  Result<void> move_link(std::uint32_t link, int netns);
  Result<void> add_address(std::uint32_t link, Ipv4 address, std::uint8_t prefix);
  Result<void> remove_address(std::uint32_t link, Ipv4 address, std::uint8_t prefix);
  // A route to `destination`/`prefix` over `link`; on-link when there is no gateway.
  Result<void> add_route(std::uint32_t link, Ipv4 destination, std::uint8_t prefix,
                         std::optional<Ipv4> gateway);
  // A neighbour that never needs ARP.
  Result<void> add_neighbour(std::uint32_t link, Ipv4 address, const Mac& mac);

 private:
  explicit Netlink(Fd fd) : fd_(std::move(fd)) {}
  Result<void> request(nlmsghdr* message, const std::string& what);

  Fd fd_;
  std::uint32_t sequence_ = 0;
};

// Ends the tracking of every connection that was opened from `source`, in this namespace.
Result<void> forget_flows(Ipv4 source);

// How many TCP connections from `source` this namespace tracks that neither side has closed.
Result<std::size_t> open_flows(Ipv4 source);

// A descriptor that becomes readable after each change of this namespace's nftables ruleset, by anyone.
Result<Fd> watch_firewall();
void drain_firewall_events(int watch);

}  // namespace atl::sys
