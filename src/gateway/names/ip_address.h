// SPDX-License-Identifier: Apache-2.0
//
// An IP address of either family as a value, and blocks of them. Text is read strictly: no octal, no short
// forms, no zones, no brackets. The loose spellings that a host name may have are read by `names/host.h`.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace atl::gateway {

// IPv4 or IPv6. An IPv6 address that only wraps an IPv4 one (::ffff:a.b.c.d) is held as that IPv4 address,
// because a socket reaches the same peer by either: there is one value per peer.
class IpAddress {
 public:
  IpAddress() = default;                                                 // 0.0.0.0
  static IpAddress v4(std::uint32_t value) { return IpAddress(value); }  // host byte order
  static IpAddress v4(std::array<std::uint8_t, 4> bytes);
  static IpAddress v6(const std::array<std::uint8_t, 16>& bytes);

  bool is_v4() const { return v4_; }
  int bits() const { return v4_ ? 32 : 128; }
  std::uint32_t v4_value() const;  // host byte order; 0 for IPv6
  // Network byte order; IPv4 uses the first four.
  const std::array<std::uint8_t, 16>& bytes() const { return bytes_; }
  std::string text() const;  // "10.0.0.1", "2001:db8::1" (RFC 5952, no brackets)

  auto operator<=>(const IpAddress&) const = default;

 private:
  explicit IpAddress(std::uint32_t value);

  bool v4_ = true;
  std::array<std::uint8_t, 16> bytes_{};
};

// "10.0.0.1" or "2001:db8::1"; kInvalid for all else.
Result<IpAddress> parse_ip(std::string_view text);

// A block of addresses of one family. Bits behind the prefix are zero.
class Cidr {
 public:
  // `prefix` is at most base.bits(); bits of `base` behind it are dropped.
  Cidr(IpAddress base, int prefix);
  const IpAddress& base() const { return base_; }
  int prefix() const { return prefix_; }
  bool contains(const IpAddress& address) const;  // false for the other family
  bool contains(const Cidr& other) const;
  bool overlaps(const Cidr& other) const { return contains(other) || other.contains(*this); }
  std::string text() const;  // "10.0.0.0/8"

  auto operator<=>(const Cidr&) const = default;

 private:
  IpAddress base_;
  int prefix_;
};

// What to do with "10.1.2.3/8", whose address is not the block's first.
enum class HostBits : std::uint8_t { kRefuse, kDrop };
// "10.0.0.0/8", "fc00::/7"; an address alone is a block of one. kInvalid for all else.
Result<Cidr> parse_cidr(std::string_view text, HostBits host_bits = HostBits::kRefuse);

}  // namespace atl::gateway
