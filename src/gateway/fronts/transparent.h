// SPDX-License-Identifier: Apache-2.0
//
// The transparent front: a connection that a program inside made to some address, redirected to us by the
// slot. Its first bytes decide what it is; it is then passed on, opened, or refused.
#pragma once

#include "gateway/flow/parts.h"
#include "gateway/fronts/first_bytes.h"
#include "http/server.h"

namespace atl::gateway {

// Serves the connection to its end. `client` is given away; all of `parts` must outlive the task.
async::Task<> serve_transparent(Parts& parts, net::StreamPtr client, Inbound in);

}  // namespace atl::gateway
