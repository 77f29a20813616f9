// SPDX-License-Identifier: Apache-2.0
//
// What sandboxes trust: the authority with which the gateway opens their connections. A create and a resume
// tell it; those that run already are told when a gateway comes whose authorities they have not heard of.
#include "base/log.h"
#include "control/sandbox_service.h"

namespace atl::control {

void SandboxService::set_trust(GuestIdentity& identity, const EgressAnswer& told) { identity.gateway = told; }

Task<> SandboxService::tell_trust() {
  if (std::exchange(telling_trust_, true)) co_return;
  std::vector<LivePtr> all;  // the table may change meanwhile
  for (const auto& [id, live] : live_) all.push_back(live);
  for (const LivePtr& live : all) {
    if (stopping_ || !egress_.connected()) break;
    co_await tell_trust_to(live);
  }
  telling_trust_ = false;
}

Task<> SandboxService::tell_trust_to(LivePtr live) {
  auto runs = [live, generation = live->row.generation] {
    return !live->ending && live->guest && live->row.state == model::State::kRunning &&
           live->row.generation == generation;
  };
  if (!runs()) co_return;
  auto told = co_await egress_.make_known(facts_for_gateway(live->row));
  if (!told || told->authority_pem.empty() || told->authority_root == live->trusts || !runs()) co_return;
  GuestIdentity identity = identity_of(live->row);
  identity.keep_environment = true;
  set_trust(identity, *told);
  auto done = co_await live->guest->init(std::move(identity));
  live->guest->close();
  if (done) {
    live->trusts = told->authority_root;
  } else {
    log::warn("a sandbox was not told what to trust",
              {{"id", live->row.id}, {"what", done.error().message()}});
  }
}

}  // namespace atl::control
