// SPDX-License-Identifier: Apache-2.0
//
// Character classes of RFC 9110, and checks of what is about to be sent.
#pragma once

#include <string_view>

#include "http/message.h"

namespace atl::http {

bool is_token(std::string_view text);        // method, field name
bool is_field_value(std::string_view text);  // no control character but HTAB, no space at either end
// "host", "host:port", "[v6]:port": no userinfo, no path, no space.
bool is_authority(std::string_view text);
// Origin-form: starts with '/', printable ASCII, no fragment, no backslash in the path.
bool is_origin_form(std::string_view text);

// kInvalid when a name or value could change the framing of the message it is sent in.
Result<void> check_headers(const Headers& headers);

// Content-Length as the RFC writes it: digits only, no list, no sign; nullopt otherwise.
std::optional<std::uint64_t> parse_content_length(std::string_view text);

}  // namespace atl::http
