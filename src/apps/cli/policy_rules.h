// SPDX-License-Identifier: Apache-2.0
//
// The commands of atoll policy that speak to an installation.
#pragma once

#include "apps/cli/command.h"

namespace atl::cli {

// set, list, get, rm and explain, below `policy`.
void register_policy_rules(Commands& commands, CLI::App& policy);

// What a request meets, as `atoll policy test` and `explain` show it.
void show_verdict(const boost::json::object& told);

}  // namespace atl::cli
