// SPDX-License-Identifier: Apache-2.0
//
// process.Process: the RPCs that start processes and speak to them.
#pragma once

#include "guest/labels.h"
#include "guest/rpc.h"
#include "guest/state.h"

namespace atl::guest {

// Serves "/process.Process/<method>". False when there is no such method; nothing has been sent then.
Task<bool> serve_process(Guest& guest, Exchange& exchange, std::string_view method);

// The environment of a process: the user's, then the sandbox's, then the request's.
std::map<std::string, std::string> process_environment(const Settings& settings, const User& user,
                                                       const std::map<std::string, std::string>& requested);

// How a process of `user_name` (empty: the default one) begins. Blocks on the disk. `right`: of who asks.
Result<SpawnRequest> prepare_process(Guest& guest, const Settings& settings, const std::string& user_name,
                                     const ProcessConfig& config, LabelRight right);

}  // namespace atl::guest
