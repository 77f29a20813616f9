// SPDX-License-Identifier: Apache-2.0
//
// CONNECT 127.0.0.1:PORT, for control only: reaches servers of the workload that listen on loopback alone.
#pragma once

#include "guest/rpc.h"

namespace atl::guest {

// The port of a CONNECT target; kInvalid for any other address than 127.0.0.1 and localhost.
Result<std::uint16_t> parse_tunnel_target(std::string_view authority);

// Connects to 127.0.0.1, then to [::1], and passes bytes both ways until both sides are done. 502 when nobody
// listens.
Task<> serve_tunnel(async::Executor executor, Exchange& exchange);

}  // namespace atl::guest
