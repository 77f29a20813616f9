// SPDX-License-Identifier: Apache-2.0
//
// Moving bytes between a client and a guest: bodies and raw streams, with back-pressure and bounded memory.
#pragma once

#include "ingress/flow.h"

namespace atl::ingress {

using async::Task;

// How long a client may take no bytes at all.
inline constexpr auto kClientIdle = std::chrono::seconds(620);

// Sends the client's body to the guest. A client that breaks off closes the guest's side.
Task<> relay_request_body(Flow& flow);
// Sends the guest's body to the client and ends it; breaks the answer off when the guest's broke off.
Task<> relay_response_body(Flow& flow);
// Both directions until both have ended. A broken side breaks the other.
Task<> relay_raw(Flow& flow, net::Stream& client, net::Stream& guest);

}  // namespace atl::ingress
