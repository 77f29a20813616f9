// SPDX-License-Identifier: Apache-2.0
//
// Reaching a port inside a sandbox: directly through the slot's link, or through the guest daemon when the
// service listens on the sandbox's own loopback only.
#pragma once

#include <functional>
#include <memory>

#include "control/directory.h"
#include "http/client.h"

namespace atl::ingress {

using async::Task;

// Opens a connection to `port` inside the sandbox of `route`. Errors keep their errno.
using GuestDial = std::function<Task<Result<net::StreamPtr>>(control::RoutePtr route, std::uint16_t port)>;
// Dials model::kGuestAddress through the sandbox's own link.
GuestDial slot_dial();

// How to reach one port. A value: connectors keep a copy.
struct PortDial {
  GuestDial dial;
  control::RoutePtr route;
  std::uint16_t port = 0;
  std::shared_ptr<http::Client> guest_daemon;  // for ports other than its own
  Steady::duration refused_retry{};            // how long a closed port is tried again
  Steady::duration agent_silence{};            // how long the guest daemon may take to answer
};

// The error's word when the guest daemon took too long.
constexpr char kAgentSilent[] = "agent_silent";

// A server that is just starting gets `refused_retry`; then the error has errno ECONNREFUSED.
Task<Result<net::StreamPtr>> open_port(PortDial how);

}  // namespace atl::ingress
