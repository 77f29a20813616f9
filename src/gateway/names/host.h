// SPDX-License-Identifier: Apache-2.0
//
// A host as requests, handshakes and rules name it: a DNS name in its one canonical spelling, or an address.
// Every spelling that some resolver or library would understand either becomes that one form here, or is
// refused; so two places that name the same host compare equal, and nothing else does.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <variant>

#include "gateway/names/ip_address.h"

namespace atl::gateway {

inline constexpr std::size_t kMaxNameBytes = 253;
inline constexpr std::size_t kMaxLabelBytes = 63;

// Made by parse_host only, so that a Host is always canonical.
class Host {
 public:
  explicit Host(IpAddress address) : value_(address) {}
  bool is_address() const { return std::holds_alternative<IpAddress>(value_); }
  const IpAddress& address() const { return std::get<IpAddress>(value_); }   // only when is_address()
  const std::string& name() const { return std::get<std::string>(value_); }  // only when not
  std::string text() const;  // as in a URL: "example.com", "10.0.0.1", "[2001:db8::1]"

  auto operator<=>(const Host&) const = default;

 private:
  friend Result<Host> parse_host(std::string_view text);
  explicit Host(std::string name) : value_(std::move(name)) {}

  std::variant<std::string, IpAddress> value_;
};

// Reads a host without a port. Names become lower-case A-labels (UTS 46, non-transitional) without a trailing
// dot; a name whose last label looks like a number is an IPv4 address in one of the spellings of the URL
// standard (hexadecimal, octal, short), or wrong; IPv6 stands in brackets and has no zone. kInvalid, word
// "invalid_host", with the reason, for all else: non-LDH characters, '%', NUL, empty or long labels.
Result<Host> parse_host(std::string_view text);

}  // namespace atl::gateway
