// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>

#include "apps/cli/target.h"

namespace atl::cli {

// The person behind the command: with sudo(8) the one who typed it, not root.
struct Caller {
  uid_t uid = 0;
  gid_t gid = 0;
  std::string name;
  std::string credentials;  // path of their credentials file
};
Result<Caller> find_caller();

// Adds `target` to the caller's credentials under `instance` and makes it the current one; the authority's
// certificate, and a bundle of it and the system's, are put beside. Written as that user.
Result<void> store_target(const Caller& caller, const std::string& instance, Target target,
                          const std::string& ca_pem);

}  // namespace atl::cli
