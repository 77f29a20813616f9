// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/parts.h"

#include "net/own_address.h"
#include "net/tcp.h"

namespace atl::gateway {

namespace {

// What is inside is microseconds away: a wider window would carry no more.
constexpr std::size_t kInsideWindow = 256 * 1024;

// Public ones too: what listens on this host is for its neighbours and not for what it confines.
Result<void> check_not_own(const IpAddress& address) {
  if (!net::is_own_address(address.text())) return success();
  return make_error(Code::kDenied, "{} is an address of the host itself", address.text())
      .with_word("address_denied");
}

// By what is known now, the sandbox runs and leaves as it did then.
Result<void> check_same_way(const SandboxPtr& now, const Sandbox& then) {
  if (runs_on(now, then) && same_proxy(now->proxy.get(), then.proxy.get())) return success();
  return make_error(Code::kDenied, "the sandbox rests, or leaves another way now").with_word("gone");
}

Result<void> verdict(policy::ConnectionDecision decision) {
  if (decision.way != policy::ConnectionDecision::Way::kDeny) return success();
  return make_error(Code::kDenied, "{}", decision.refusal.reason)
      .with_word("address_denied")
      .with_hint(decision.refusal.hint);
}

// What may be dialled for this connection, by the policy that is in force when it is asked.
AddressCheck check_by_policy(const Parts& parts, const Inbound& in, policy::Stream stream) {
  return [&registry = parts.registry, in, stream](const IpAddress& address) -> Result<void> {
    SandboxPtr now = registry.find(in.sandbox->id);
    TRY_VOID(check_same_way(now, *in.sandbox));
    TRY_VOID(check_not_own(address));
    policy::ConnectionFacts facts = connection_facts(in, stream);
    facts.address = address;
    return verdict(now->policy->connection(facts));
  };
}

AddressCheck check_of_proxy(const Parts& parts, const Inbound& in) {
  return [&registry = parts.registry, in](const IpAddress& address) -> Result<void> {
    SandboxPtr now = registry.find(in.sandbox->id);
    TRY_VOID(check_same_way(now, *in.sandbox));
    TRY_VOID(check_not_own(address));
    policy::ConnectionFacts facts{who_is(in), now->proxy->socks->authority, address};
    facts.who.label = {};  // all of the sandbox take the same one
    return verdict(now->proxy->reach->connection(facts));
  };
}

}  // namespace

FairShare::User memory_of(const Parts& parts, const Sandbox& sandbox) {
  return parts.under_way.of(sandbox.id);
}

http::ServerLimits server_limits(const Parts& parts, const Sandbox& sandbox) {
  http::ServerLimits limits;
  limits.h2_window = kInsideWindow;
  limits.memory = memory_of(parts, sandbox);
  return limits;
}

void Inbound::note_peer(const std::string& server) {
  if (sandbox->proxy) return;  // it is the proxy's address
  auto peer = net::parse_endpoint(server);
  auto address = peer.ok() ? parse_ip(peer->address) : Result<IpAddress>(peer.error());
  if (address.ok()) reached = *address;
}

policy::Who who_is(const Inbound& in) {
  return {in.sandbox->id, in.sandbox->tenant, in.sandbox->template_id, in.label};
}

policy::ConnectionFacts connection_facts(const Inbound& in, policy::Stream stream) {
  policy::ConnectionFacts facts{who_is(in), in.dialled, in.reached, stream};
  if (in.dialled.host.is_address()) facts.address = in.dialled.host.address();
  facts.resolved_elsewhere = in.sandbox->proxy && !in.dialled.host.is_address();
  return facts;
}

bool runs_on(const SandboxPtr& now, const Sandbox& then) {
  return now && now->policy && now->generation == then.generation && now->state == model::State::kRunning;
}

bool still_allowed(const SandboxPtr& now, const Inbound& in, policy::Stream stream) {
  if (!runs_on(now, *in.sandbox) || !same_proxy(now->proxy.get(), in.sandbox->proxy.get())) return false;
  auto decision = now->policy->connection(connection_facts(in, stream));
  return decision.way != policy::ConnectionDecision::Way::kDeny;
}

void choose_way(const Parts& parts, const Inbound& in, policy::Stream stream, Route& route) {
  route.sandbox = upstream_key(*in.sandbox, in.label);
  route.check = check_by_policy(parts, in, stream);
  route.memory = memory_of(parts, *in.sandbox);
  if (!in.sandbox->proxy) return;
  route.proxy = in.sandbox->proxy->socks;
  route.proxy_check = check_of_proxy(parts, in);
}

std::string upstream_key(const Sandbox& sandbox, std::string_view label) {
  return fmt::format("{}/{}{}{}", sandbox.id, sandbox.generation, label.empty() ? "" : "/", label);
}

}  // namespace atl::gateway
