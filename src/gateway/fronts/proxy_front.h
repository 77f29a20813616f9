// SPDX-License-Identifier: Apache-2.0
//
// The explicit front, at the slot's gateway address: an HTTP proxy (CONNECT and absolute form). Programs that
// were told to use a proxy end in the same pipeline as those that were not.
#pragma once

#include "gateway/flow/parts.h"
#include "net/stream.h"

namespace atl::gateway {

// `label`: of the process; empty when it has none.
async::Task<> serve_proxy(Parts& parts, net::StreamPtr client, SandboxPtr sandbox, std::string label);

}  // namespace atl::gateway
