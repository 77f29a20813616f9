// SPDX-License-Identifier: Apache-2.0
//
// What the fronts and the pipeline work with. All of it lives on the gateway's one loop and outlives them.
#pragma once

#include "base/clock.h"
#include "base/fair_share.h"
#include "gateway/approvals/approvals.h"
#include "gateway/fetch/client_identity.h"
#include "gateway/flow/authorities.h"
#include "gateway/flow/bodies.h"
#include "gateway/flow/events.h"
#include "gateway/flow/flows.h"
#include "gateway/flow/names.h"
#include "gateway/flow/rates.h"
#include "gateway/rules/egress_proxy.h"
#include "gateway/sandboxes/registry.h"
#include "gateway/tls/intercept.h"
#include "gateway/token/tokens.h"
#include "gateway/upstream/upstream.h"
#include "gateway/vault/minter.h"
#include "gateway/vault/vault.h"

namespace atl::gateway {

class PatternCache;

struct Parts {
  Registry& registry;
  Flows& flows;
  Events& events;
  Names& names;
  Authorities& authorities;
  Interceptor& interceptor;
  Upstream& upstream;
  vault::Vault& vault;
  vault::Minter& minter;
  ClientIdentities& identities;
  PatternCache& patterns;
  Rates& rates;
  Approvals& approvals;
  token::Tokens& tokens;
  const vault::Locked& placeholder_root;  // vault/placeholder.h
  Clock& clock;
  // Questions of DNS that wait for their answers: their store is one file for all.
  FairShare questions{4096, 32};
  FairShare held_bodies{kMaxHeldBodies, kMaxHeldBodiesPerSandbox};  // bytes
  FairShare under_way{kMaxUnderWay, kMaxUnderWayPerSandbox};        // bytes
};

// Whose what a sandbox has under way is.
FairShare::User memory_of(const Parts& parts, const Sandbox& sandbox);
// Of the servers that sandboxes speak to here.
http::ServerLimits server_limits(const Parts& parts, const Sandbox& sandbox);

// A connection out of a sandbox: who opened it, and to what.
struct Inbound {
  SandboxPtr sandbox;
  std::string label;                      // of the process; empty when it has none
  Authority dialled;                      // a name, when the address was one that stands for a name
  std::optional<IpAddress> reached = {};  // where the connection to it has led

  // `server` is that connection, or its peer.
  void note_peer(const net::Stream& server) { note_peer(server.peer()); }
  void note_peer(const std::string& server);
};

// For questions to the policy; views of `in`, which must outlive them.
policy::Who who_is(const Inbound& in);
policy::ConnectionFacts connection_facts(const Inbound& in, policy::Stream stream);

// Sets whom the route is for, what may be dialled for it by the policy that is in force when it is dialled,
// and the proxy that it takes.
void choose_way(const Parts& parts, const Inbound& in, policy::Stream stream, Route& route);

// True while what is known now is the sandbox of then, and it runs. `now` may be null.
bool runs_on(const SandboxPtr& now, const Sandbox& then);
// Whether a connection may go on under what is known now: its sandbox runs in the same generation, leaves the
// same way, and the rules of today do not refuse it. `now` may be null.
bool still_allowed(const SandboxPtr& now, const Inbound& in, policy::Stream stream);

// Under which the upstream side keeps connections of a sandbox: its id, a slash and more (Upstream::forget).
// One kept for a label is not used for what has another one, or none: its address was judged for that one.
std::string upstream_key(const Sandbox& sandbox, std::string_view label = {});

}  // namespace atl::gateway
