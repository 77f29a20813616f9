// SPDX-License-Identifier: Apache-2.0
//
// The head of an answer on its way to a sandbox, made anew.
#pragma once

#include <memory>

#include "gateway/names/authority.h"
#include "gateway/upstream/scanner.h"
#include "http/message.h"

namespace atl::gateway {

// What the rules say about the answer to one request.
struct AnswerRules {
  Authority authority;  // of the request
  bool tls = true;
  bool brokered = false;      // a credential went in
  bool keep_cookies = false;  // a rule lets cookies of a brokered host through
  bool body_changes = false;  // the body is decoded or searched: its length and coding are not the sandbox's
  std::shared_ptr<const SecretPatterns> patterns;  // null: nothing to look for
};

// The head, and how much had to be taken out of it.
struct PreparedAnswer {
  http::ResponseHead head;
  std::size_t incidents = 0;  // secrets that were found in its fields, and replaced
};

// The answer as the sandbox may see it; a 101 must have been accepted before (accepts_websocket()). Gone are:
// fields about one hop, what Connection names, Alt-Svc (there is no way for QUIC), and of brokered hosts
// Set-Cookie. Secrets in values are replaced; a name that holds one is gone. A redirect of a brokered host to
// another origin passes as it is: nothing of the credential is in it, and the request that follows is judged
// by itself, as any other. One that cannot be judged (no http or https, user information, not a URL) is
// refused: kCorrupt, word "redirect_refused", told as 502.
Result<PreparedAnswer> prepare_answer(http::ResponseHead received, const AnswerRules& rules);
http::Headers prepare_answer_trailers(const http::Headers& received, const AnswerRules& rules,
                                      std::size_t& incidents);

// Whether a Location leads to the origin of the request, elsewhere, or nowhere that can be judged.
enum class Redirect : std::uint8_t { kSameOrigin, kOtherOrigin, kUnclear };
Redirect judge_redirect(std::string_view location, const Authority& authority, bool tls);

// True when `answer` accepts the WebSocket that `request` (as it was sent) asked for, by its key.
bool accepts_websocket(const http::RequestHead& request, const http::ResponseHead& answer);

}  // namespace atl::gateway
