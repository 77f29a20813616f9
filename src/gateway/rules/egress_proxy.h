// SPDX-License-Identifier: Apache-2.0
//
// The proxy that a sandbox's network object names: everything out of the sandbox takes it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "gateway/policy/policy.h"
#include "gateway/upstream/socks5.h"
#include "gateway/vault/vault.h"

namespace atl::gateway {

// Ready to use. Shared and immutable.
struct EgressProxy {
  std::shared_ptr<const Proxy> socks;
  // Whether it may be reached: as the sandbox's tenant, template and operator say of anything. What the
  // sandbox itself may reach is another matter, and is decided before.
  std::shared_ptr<const policy::Policy> reach;
};

// From {"proxy": {"address": "host:port", "username", "sealedPassword"}}; null when there is none. kInvalid
// names the field.
Result<std::shared_ptr<const EgressProxy>> read_egress_proxy(const vault::Vault& vault,
                                                             const std::string& tenant,
                                                             const boost::json::object& network,
                                                             std::vector<policy::RuleSet> above);

// Whether both lead the same way; either may be null.
bool same_proxy(const EgressProxy* one, const EgressProxy* other);

}  // namespace atl::gateway
