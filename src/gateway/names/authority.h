// SPDX-License-Identifier: Apache-2.0
//
// Host and port of a request, and the one rule by which it is found when several places name one.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/names/host.h"

namespace atl::gateway {

inline constexpr std::uint16_t kHttpPort = 80, kHttpsPort = 443;
// Of a scheme: the port that need not be said.
constexpr std::uint16_t usual_port(bool secure) { return secure ? kHttpsPort : kHttpPort; }

// Whom a request is for. Rules, credentials, certificates, dialling and audit all use this one value.
struct Authority {
  Host host;
  std::uint16_t port = 0;

  std::string text() const;  // "example.com:443", "[2001:db8::1]:80"
  auto operator<=>(const Authority&) const = default;
};

// "host", "host:port", "[v6]:port". No user information, path or space. Without a port it is `default_port`;
// with 0 there, a port is required. kInvalid, word "invalid_host" or "invalid_port".
Result<Authority> parse_authority(std::string_view text, std::uint16_t default_port);

// What the places say that can name an authority. Absent ones say nothing.
struct AuthorityClaims {
  std::optional<Authority> dialled;      // CONNECT, or the name behind the synthetic address, or an address
  std::optional<std::string_view> sni;   // of the ClientHello, as received
  std::optional<std::string_view> host;  // the Host field or :authority, as received
  std::optional<std::string_view> absolute;  // authority of an absolute-form target, as received
  std::uint16_t default_port = 0;            // of the scheme; counts only when nothing was dialled
};

// The authority that all of them mean. A place that names no port says nothing about it. When two disagree:
// kDenied, word "misdirected" (answered with 421), and the message names both places and what they say. A
// connection made to an address is for that address: a name that is told inside it is a disagreement too,
// because nobody checked that this name has this address. kInvalid when one of them cannot be read or nothing
// is said at all.
Result<Authority> agree(const AuthorityClaims& claims);

}  // namespace atl::gateway
