// SPDX-License-Identifier: Apache-2.0
//
// The policy of a sandbox from what control says of its network.
#pragma once

#include <memory>

#include <boost/json.hpp>

#include "gateway/policy/policy.h"

namespace atl::gateway {

// {"internet": true, "allow": [...], "deny": [...], "rules": {host: {header: value}}}, the network object of
// the E2B API, and beside it "tenant", "template" and "sandbox": rule sets (policy/rule.h). kInvalid names
// the field.
Result<std::shared_ptr<const policy::Policy>> compile_network(const boost::json::object& network);

}  // namespace atl::gateway
