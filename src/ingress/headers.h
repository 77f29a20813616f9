// SPDX-License-Identifier: Apache-2.0
//
// What is passed on, and what is not, between a client and a service inside a sandbox. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "control/directory.h"
#include "http/message.h"

namespace atl::ingress {

// The protocol that the client wants to switch to and that may be passed on; empty when none. Never `h2c`: a
// tunnel of that kind would carry requests that ingress does not see.
std::string upgrade_wanted(const http::RequestHead& request, std::uint16_t port);

// The request as the guest gets it: made anew from the parsed one. nullopt when the guest daemon's path is
// not decodable.
std::optional<http::RequestHead> guest_request(const http::RequestHead& request, const control::Route& route,
                                               std::uint16_t port);

// The answer as the client gets it.
http::ResponseHead client_response(const http::ResponseHead& answer, std::uint16_t port);

}  // namespace atl::ingress
