// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "apps/cli/config.h"

namespace atl::cli {

// What of an instance is still in the kernel or in the run directory: cgroups in every hierarchy, links, the
// firewall table, mounts, loop devices, records. One line each, empty when nothing is left. Looks only; needs
// root to see all.
std::vector<std::string> find_leftovers(const Config& config);

// Whether the nftables table inet `name` exists; an error when the kernel has no nftables.
Result<bool> firewall_table_exists(const std::string& name);

}  // namespace atl::cli
