// SPDX-License-Identifier: Apache-2.0
//
// What a person is shown of a request: what looks like a secret is left out, and it is short.
#pragma once

#include <string>
#include <string_view>

#include "gateway/approvals/approval.h"

namespace atl::gateway {

inline constexpr std::size_t kMaxShownUrl = 1024;
inline constexpr std::size_t kMaxSummary = 8192;
inline constexpr std::size_t kMaxShownBody = 2048;

// The text with "[redacted]" in place of values whose names speak of secrets and of words that look like
// keys, and without characters that play tricks on screens. A heuristic: it errs on the side of leaving out.
std::string redacted(std::string_view text);

// "https://api.example/v1?x=1"
std::string shown_url(const ExactRequest& request);
// The request line, the fields that matter, trailers, and the beginning of the body, each line of it behind a
// bar, so that no body can pass for something else. Where something is cut, a line in parentheses says so.
std::string summary_of(const ExactRequest& request);

}  // namespace atl::gateway
