// SPDX-License-Identifier: Apache-2.0
//
// A refusal as an HTTP answer.
#pragma once

#include <string>

#include "gateway/policy/policy.h"
#include "http/message.h"

namespace atl::gateway {

// {"code": 403, "message": "...", "rule": "...", "hint": "..."}, with the rule in X-Atoll-Rule, and told not
// to try again; 503 is for what passes, and says to try again.
struct HttpRefusal {
  http::ResponseHead head;
  std::string body;
};
HttpRefusal http_refusal(int status, const policy::Refusal& refusal);

}  // namespace atl::gateway
