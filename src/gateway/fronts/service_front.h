// SPDX-License-Identifier: Apache-2.0
//
// The reverse front, at the slot's gateway address: /svc/<name>/... leads to the service of that name
// (vault/service.h), with the token of the sandbox. What goes out is judged like any other request to that
// host.
#pragma once

#include "gateway/flow/parts.h"
#include "http/server.h"

namespace atl::gateway {

// True for the name (kGatewayName) and the address of the gateway itself.
bool is_gateway_itself(const Authority& authority);

// Answers a request to the gateway itself, which `self` names as dialled.
async::Task<> serve_service(Parts& parts, Inbound self, http::Exchange& exchange);

// Exposed for tests. The name of the service and what stands behind it in the target, which begins with a
// slash or a question mark, or is empty; nothing for a target of another form.
struct ServiceTarget {
  std::string_view name;
  std::string_view rest;
};
std::optional<ServiceTarget> read_service_target(std::string_view target);

}  // namespace atl::gateway
