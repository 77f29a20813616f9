// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/parts.h"

#include "net/own_address.h"
#include "net/tcp.h"

namespace atl::gateway {

void Inbound::note_peer(const net::Stream& server) {
  auto peer = net::parse_endpoint(server.peer());
  auto address = peer.ok() ? parse_ip(peer->address) : Result<IpAddress>(peer.error());
  if (address.ok()) reached = *address;
}

policy::Who who_is(const Inbound& in) {
  return {in.sandbox->id, in.sandbox->tenant, in.sandbox->template_id, in.label};
}

policy::ConnectionFacts connection_facts(const Inbound& in, policy::Stream stream) {
  policy::ConnectionFacts facts{who_is(in), in.dialled, in.reached, stream};
  if (in.dialled.host.is_address()) facts.address = in.dialled.host.address();
  return facts;
}

bool runs_on(const SandboxPtr& now, const Sandbox& then) {
  return now && now->policy && now->generation == then.generation && now->state == model::State::kRunning;
}

bool still_allowed(const SandboxPtr& now, const Inbound& in, policy::Stream stream) {
  if (!runs_on(now, *in.sandbox)) return false;
  auto decision = now->policy->connection(connection_facts(in, stream));
  return decision.way != policy::ConnectionDecision::Way::kDeny;
}

AddressCheck check_by_policy(const Parts& parts, const Inbound& in, policy::Stream stream) {
  return [&registry = parts.registry, in, stream](const IpAddress& address) -> Result<void> {
    SandboxPtr now = registry.find(in.sandbox->id);
    if (!runs_on(now, *in.sandbox)) return make_error(Code::kDenied, "the sandbox rests").with_word("gone");
    // Public ones too: what listens on this host is for its neighbours and not for what it confines.
    if (net::is_own_address(address.text())) {
      return make_error(Code::kDenied, "{} is an address of the host itself", address.text())
          .with_word("address_denied");
    }
    policy::ConnectionFacts facts = connection_facts(in, stream);
    facts.address = address;
    policy::ConnectionDecision decision = now->policy->connection(facts);
    if (decision.way != policy::ConnectionDecision::Way::kDeny) return success();
    return make_error(Code::kDenied, "{}", decision.refusal.reason)
        .with_word("address_denied")
        .with_hint(decision.refusal.hint);
  };
}

std::string upstream_key(const Sandbox& sandbox) {
  return fmt::format("{}/{}", sandbox.id, sandbox.generation);
}

}  // namespace atl::gateway
