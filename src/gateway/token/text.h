// SPDX-License-Identifier: Apache-2.0
//
// How sandbox tokens look, how they are narrowed, and where they stand in a request.
//
//   atoll_st_<43 characters>                         the token of a sandbox: 256 random bits
//   atoll_nt_<id>.<caveat>.<caveat>...<signature>    a narrowed one (base64url, no padding)
//
// The signature of a caveat is HMAC-SHA256 of its text with the signature before it as key; the first key is
// HMAC-SHA256(bits, "atoll token chain"), which only the holder of the token and the gateway know. So anybody
// who has a token can narrow it, without asking, and nobody can widen one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/secret.h"
#include "http/message.h"

namespace atl::gateway::token {

inline constexpr std::string_view kFullPrefix = "atoll_st_";
inline constexpr std::string_view kNarrowPrefix = "atoll_nt_";
inline constexpr std::size_t kMaxToken = 4096;
inline constexpr std::size_t kMaxCaveats = 8;

// The parts of a token, as bytes.
struct Parts {
  std::string id;                    // 16 bytes; tells the token apart, opens nothing
  Secret bits;                       // of a full one; empty for a narrowed one
  Secret signature;                  // the key for the next caveat
  std::vector<std::string> caveats;  // their texts, oldest first
};
// kUnauthenticated, word "token_malformed", when `text` is none.
Result<Parts> read_token(std::string_view text);
Secret write_full(std::string_view bits);

// A token that can do what `text` can and `caveat` (caveat.h) allows. kInvalid when the caveat is none.
Result<Secret> narrow(std::string_view text, std::string_view caveat);
std::string sign_caveat(std::string_view key, std::string_view caveat);

// The token of a request: `authorization` (Bearer, or the password of Basic), `x-api-key`,
// `proxy-authorization` or an item of `sec-websocket-protocol`. The first that looks like one of ours.
std::optional<Secret> find_token(const http::Headers& headers);
// Removes every header that has one in it, wherever: a token never goes upstream. Of `sec-websocket-protocol`
// only the item.
void remove_tokens(http::Headers& headers);

}  // namespace atl::gateway::token
