// SPDX-License-Identifier: Apache-2.0
//
// The policy of a sandbox: what control says of its network, and the rules of those above it.
#pragma once

#include <memory>
#include <vector>

#include <boost/json.hpp>

#include "gateway/policy/policy.h"

namespace atl::gateway {

// The sandbox's own rules, from {"internet": true, "allow": [...], "deny": [...], "rules": {host: {header:
// value}}, "httpsPorts": [...]}, the network object of the E2B API. kInvalid names the field.
Result<policy::RuleSet> read_network(const boost::json::object& network);

// Both together. `above`: sets of the operator, the tenant, the template.
Result<std::shared_ptr<const policy::Policy>> compile_network(const boost::json::object& network,
                                                              std::vector<policy::RuleSet> above);

}  // namespace atl::gateway
