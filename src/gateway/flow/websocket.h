// SPDX-License-Identifier: Apache-2.0
//
// The two sides of a WebSocket that was opened with a credential.
#pragma once

#include "base/fair_share.h"
#include "gateway/upstream/websocket_search.h"
#include "net/stream.h"

namespace atl::gateway {

// Passes both directions on until both have ended, as net::relay(), and takes secrets out of what the server
// sends. `incidents` counts them.
async::Task<> relay_websocket(net::Stream& client, net::Stream& server,
                              std::shared_ptr<const SecretPatterns> patterns, FairShare::User memory,
                              std::size_t& incidents);

}  // namespace atl::gateway
