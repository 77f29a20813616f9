// SPDX-License-Identifier: Apache-2.0
//
// A connection of a sandbox that is cut when its sandbox no longer runs, wherever it has got to.
#pragma once

#include "gateway/flow/flows.h"
#include "net/stream.h"

namespace atl::gateway {

// `stream`, enlisted for as long as it lives. Null, and the stream reset, when `sandbox` does not run now or
// has too many connections.
net::StreamPtr enlist(Flows& flows, SandboxPtr sandbox, net::StreamPtr stream);

}  // namespace atl::gateway
