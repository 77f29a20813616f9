// SPDX-License-Identifier: Apache-2.0
//
// Who may call: the access token of the sandbox, signatures of file URLs, the internal token. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/secret.h"
#include "http/message.h"

namespace atl::guest {

// "v1_…" over a path (as given), "read" or "write", the user ("" when left out), and the expiry in unix
// seconds.
std::string file_signature(std::string_view path, std::string_view operation, std::string_view user,
                           const Secret& token, std::optional<std::string_view> expiration);

// True when the sandbox is not secured, or when the request carries the token.
bool has_access(const http::Headers& headers, const Secret& token);
// True when the request carries the internal token. Never when there is none.
bool is_internal(const http::Headers& headers, std::string_view internal_token);

// A decoded query string, in order.
using Query = std::vector<std::pair<std::string, std::string>>;
// A file call is allowed by the token or by the signature in its query. The failure is kUnauthenticated.
Result<void> check_file_access(const http::Headers& headers, const Query& query, std::string_view operation,
                               const Secret& token, std::int64_t now_seconds);

// What a client without the token reads; clients compare it.
inline constexpr std::string_view kNoAccess =
    "unauthorized access, please provide a valid access token or method signing if supported";

}  // namespace atl::guest
