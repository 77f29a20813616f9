// SPDX-License-Identifier: Apache-2.0
#include "api/e2b.h"

namespace atl::api {

std::vector<Route> all_routes() {
  std::vector<Route> all;
  for (const auto& part : {e2b_sandbox_routes(), e2b_list_routes(), e2b_log_routes(), e2b_template_routes(),
                           snapshot_routes(), secret_routes(), policy_routes(), approval_routes(),
                           e2b_later_routes(), own_routes(), host_routes()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace atl::api
