// SPDX-License-Identifier: Apache-2.0
//
// Which sandbox and port a request is for, from its Host and its headers alone. Pure functions: nothing is
// looked up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "http/message.h"

namespace atl::ingress {

// A request that names a sandbox.
struct Target {
  std::string sandbox;  // id without a client suffix; letters, digits, '-' and '_' only
  std::uint16_t port = 0;
};

// A signed URL that names no sandbox: the sandbox is the one whose token makes the signature.
struct SignedFile {
  std::string path;
  std::string operation;  // "read" or "write"
  std::string user;
  std::string expiration;  // as given, empty when absent
  std::string signature;
};

// The request cannot be routed; answered with 400 and this text.
struct BadTarget {
  std::string message;
};

// Not for a sandbox at all: the API answers it.
struct NotIngress {};

using Routing = std::variant<NotIngress, Target, SignedFile, BadTarget>;

// Decides by the rule of e2b-protocol §6: a Host that names a sandbox wins and headers are ignored; a Host
// that is `localhost`, an address, or begins with `sandbox.` gives the word to the headers. `domain` has no
// port.
Routing route_request(const http::RequestHead& request, std::string_view domain);

// Strict decimal 1-65535: no sign, no leading zero, ASCII digits only.
std::optional<std::uint16_t> parse_port(std::string_view text);

// The path that the guest daemon may be asked for: decoded, without empty and dot segments, encoded again.
// nullopt when it cannot be decoded.
std::optional<std::string> normal_guest_path(std::string_view path);

// True for paths of the guest daemon that only control may call, however they are spelled.
bool is_internal_path(std::string_view path);

}  // namespace atl::ingress
