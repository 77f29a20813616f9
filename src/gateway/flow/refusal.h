// SPDX-License-Identifier: Apache-2.0
//
// A refusal as an HTTP answer.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "gateway/approvals/approval.h"
#include "gateway/policy/policy.h"
#include "http/message.h"

namespace atl::gateway {

// {"code": 403, "message": "...", "rule": "...", "hint": "..."}, with the rule in X-Atoll-Rule, and told when
// to try again (503, which is for what passes: in a second) or not to.
struct HttpRefusal {
  http::ResponseHead head;
  std::string body;
};
HttpRefusal http_refusal(int status, const policy::Refusal& refusal,
                         std::optional<std::chrono::seconds> retry_after = std::nullopt);

// Of a request that a person was asked about and that does not go out: also {"error_code":
// "approval_pending", "approval": {"id", "state", "expiresAt"}}, with the id in X-Atoll-Approval.
HttpRefusal approval_refusal(int status, const Approval& approval);

}  // namespace atl::gateway
