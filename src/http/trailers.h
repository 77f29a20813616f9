// SPDX-License-Identifier: Apache-2.0
//
// Trailers: fields after a body (RFC 9110 §6.5).
#pragma once

#include <string>
#include <string_view>

#include "http/message.h"

namespace atl::http {

// False for fields that would change what has already been acted on: framing, routing, authentication,
// conditions, caching (RFC 9110 §6.5.1). Such are neither taken from a peer nor sent.
bool may_be_trailer(std::string_view name);

// The lines after the last chunk, each with its CRLF. Fields that may not stand there are left out; kInvalid
// for one that is malformed.
Result<Headers> parse_trailers(std::string_view lines);

// The end of a chunked body: the last chunk, the fields, the empty line. Fields that cannot be sent are left
// out.
std::string last_chunk(const Headers& trailers);

}  // namespace atl::http
