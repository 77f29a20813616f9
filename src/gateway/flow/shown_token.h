// SPDX-License-Identifier: Apache-2.0
//
// The token that a request shows, and whether it is good for it.
#pragma once

#include "gateway/flow/parts.h"
#include "http/message.h"

namespace atl::gateway {

enum class TokenNeed : bool { kOptional, kRequired };

// A token that is shown must be the sandbox's own and allow this request, by whatever front it came; where it
// is required, one must be shown. kUnauthenticated (401), word "token_required" or one of Tokens::check();
// kDenied (403), word "token_narrowed". `in` must have the sandbox as it is known now.
Result<void> check_shown_token(const Parts& parts, const Inbound& in, const http::RequestHead& request,
                               TokenNeed need);

}  // namespace atl::gateway
