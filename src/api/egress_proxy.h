// SPDX-License-Identifier: Apache-2.0
//
// The egress proxy of a network object: its password is sealed by the gateway before anything of it is
// stored.
#pragma once

#include "api/router.h"

namespace atl::api {

// The field `egressProxy` of a network object, without its password. Mistakes go into `network`.
void read_egress_proxy(Fields& network, model::NetworkRules& rules);

// Seals the password that `network`, the object which `rules` were read from, holds, and overwrites it there.
// Does nothing where there is none. kUnavailable, word gateway_unavailable, when the gateway does not seal
// it.
Task<Result<void>> seal_egress_proxy(Services& services, std::string tenant, json::object& network,
                                     model::NetworkRules& rules);

}  // namespace atl::api
