// SPDX-License-Identifier: Apache-2.0
//
// The parts of the route table.
#pragma once

#include "api/router.h"

namespace atl::api {

std::vector<Route> e2b_sandbox_routes();
std::vector<Route> e2b_list_routes();
std::vector<Route> e2b_log_routes();
std::vector<Route> e2b_template_routes();
std::vector<Route> snapshot_routes();   // and forks; E2B's and our own
std::vector<Route> secret_routes();     // E2B's and our own, answered by the gateway's vault
std::vector<Route> policy_routes();     // rules of tenants and templates, kept by the gateway
std::vector<Route> approval_routes();   // requests that a person must approve, held by the gateway
std::vector<Route> e2b_later_routes();  // what later versions bring: 501
std::vector<Route> own_routes();        // under /v1
std::vector<Route> host_routes();       // what the host can do, and metrics

}  // namespace atl::api
