// SPDX-License-Identifier: Apache-2.0
//
// What a rule may say about hosts: "api.example.com", "*.example.com", "*", "203.0.113.7", "10.0.0.0/8".
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "gateway/names/host.h"

namespace atl::gateway {

// Wildcards speak of names only and match whole labels: "*.example.com" matches "a.example.com" and
// "a.b.example.com", neither "example.com" nor "badexample.com". No wildcard ever matches an address, also
// not one that is written as a host; only addresses and blocks do that.
class HostPattern {
 public:
  bool is_address() const { return std::holds_alternative<Cidr>(value_); }
  const Cidr& block() const {
    return std::get<Cidr>(value_);
  }  // only when is_address(); one address is a /32 or /128
  bool any_name() const;  // "*"
  bool matches(const Host& host) const;
  bool matches_name(std::string_view canonical_name) const;
  bool matches_address(const IpAddress& address) const;
  std::string text() const;

  bool operator==(const HostPattern&) const = default;

 private:
  friend Result<HostPattern> parse_host_pattern(std::string_view text, HostBits host_bits);
  struct Name {
    std::string exact;  // canonical
    bool operator==(const Name&) const = default;
  };
  struct Below {
    std::string suffix;  // ".example.com"; "" for any name
    bool operator==(const Below&) const = default;
  };
  explicit HostPattern(std::variant<Name, Below, Cidr> value) : value_(std::move(value)) {}

  std::variant<Name, Below, Cidr> value_;
};

// IPv6 with or without brackets. kInvalid, word "invalid_host", when it is none of these forms.
Result<HostPattern> parse_host_pattern(std::string_view text, HostBits host_bits = HostBits::kRefuse);

}  // namespace atl::gateway
