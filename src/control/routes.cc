// SPDX-License-Identifier: Apache-2.0
//
// The directory side of SandboxService: which sandboxes can be reached, and who is told when one no longer
// can.
#include "base/bytes.h"
#include "base/digest.h"
#include "control/service_impl.h"

namespace atl::control {
namespace {

std::shared_ptr<Route> make_route(const Live& live) {
  const model::SandboxRow& row = live.row;
  auto route = std::make_shared<Route>();
  route->activity = live.activity;
  route->sandbox = row.id;
  route->generation = row.generation;
  route->state = live.held && row.state == model::State::kRunning ? model::State::kPausing : row.state;
  route->interface = row.interface;
  route->access_token = row.access_token;
  route->traffic_token = row.traffic_token;
  route->mask_request_host = row.ingress.mask_request_host;
  route->auto_resume = (row.lifecycle.auto_resume && row.rests_in_memory) || live.held;
  route->internal_token = Secret(hex_encode(
      std::string_view(reinterpret_cast<const char*>(row.internal_token.data()), row.internal_token.size())));
  return route;
}

constexpr std::size_t kMaxExpiration = 20;  // digits of a time

}  // namespace

// A copy of a sandbox is under the rules of the template that all of it came from.
EgressFacts SandboxService::facts_for_gateway(const model::SandboxRow& row) const {
  const model::Build* build = catalog_.build(row.build);
  return egress_facts(row, build ? build->template_id : std::string());
}

// Those that hold a slot and belong to somebody; ready ones have nothing that could send.
std::vector<EgressFacts> SandboxService::all_egress() const {
  std::vector<EgressFacts> out;
  for (const auto& [id, live] : live_) {
    if (!live->ending && !live->row.tenant.empty() && !live->row.interface.empty())
      out.push_back(facts_for_gateway(live->row));
  }
  return out;
}

void SandboxService::take_off_list(Live& live) {
  if (!live.listed_as) return;
  auto listing = listed_.find(live.row.tenant);
  listing->second.rows.erase(*live.listed_as);
  if (live.row.state == model::State::kRunning) --listing->second.running;
  if (listing->second.rows.empty()) listed_.erase(listing);
  live.listed_as.reset();
}

// The one place where a state changes, so that each list knows how many of its rows run.
void SandboxService::set_state(Live& live, model::State to) {
  if (live.listed_as) {
    std::size_t& running = listed_[live.row.tenant].running;
    if (live.row.state == model::State::kRunning) --running;
    if (to == model::State::kRunning) ++running;
  }
  live.row.state = to;
}

void SandboxService::show_state(const LivePtr& live) {
  live->route = make_route(*live);
  StartKey key(live->row.started_at.ms, live->row.id);
  take_off_list(*live);
  Listing& listing = listed_[live->row.tenant];
  listing.rows.emplace(key, live);
  if (live->row.state == model::State::kRunning) ++listing.running;
  live->listed_as = std::move(key);
  live->changed.notify_all();
  tell_gateway(*live, live->row.state);
}

// One that rests on its disk has no slot, and nothing of it can send.
void SandboxService::tell_gateway(const Live& live, model::State state) {
  if (live.row.interface.empty()) {
    egress_.gone(live.row.id, live.row.generation);
    return;
  }
  EgressFacts facts = facts_for_gateway(live.row);
  if (state == model::State::kPausing) facts.state = state;
  egress_.changed(std::move(facts));
}

void SandboxService::close_door(const LivePtr& live) {
  if (!live->route) return;
  auto route = make_route(*live);
  route->state = model::State::kPausing;
  live->route = std::move(route);
  tell_gateway(*live, model::State::kPausing);
}

void SandboxService::publish(const LivePtr& live) {
  show_state(live);
  if (live->row.state != model::State::kRunning) return;  // paused again while that it runs was written
  deadlines_.set(live->row.id, live->row.deadline_steady_ms);
  deadlines_changed_.notify_all();
}

void SandboxService::unpublish(const LivePtr& live) {
  deadlines_.erase(live->row.id);
  egress_.gone(live->row.id, live->row.generation);
  if (!live->route) return;
  live->route.reset();
  take_off_list(*live);
  break_off(live);
}

void SandboxService::break_off(const LivePtr& live) {
  auto calls = gone_;  // a call may unsubscribe
  for (const auto& [id, call] : calls) call(live->row.id, live->row.generation);
}

RoutePtr SandboxService::find(std::string_view sandbox) const {
  auto found = live_.find(std::string(sandbox));
  return found == live_.end() ? nullptr : found->second->route;
}

RoutePtr SandboxService::find_by_signature(std::string_view path, std::string_view operation,
                                           std::string_view user, std::string_view expiration,
                                           std::string_view signature) const {
  // Anyone may ask, and the answer looks at every sandbox. So what the caller chose is hashed once.
  if (expiration.size() > kMaxExpiration) return nullptr;
  // e2b-protocol 7.2: "v1_" + base64(SHA-256("path:operation:user:token[:expiration]")) without padding.
  Sha256Beginning text(fmt::format("{}:{}:{}:", path, operation, user));
  std::string end = expiration.empty() ? std::string() : fmt::format(":{}", expiration);
  for (const auto& [tenant, listing] : listed_) {
    for (const auto& [key, live] : listing.rows) {
      if (live->row.access_token.empty()) continue;
      std::string hash = text.with(live->row.access_token.reveal() + end);
      std::string expected = "v1_" + base64_encode(hash, Padding::kNone);
      if (constant_time_equal(expected, signature)) return live->route;
    }
  }
  return nullptr;
}

std::shared_ptr<void> SandboxService::on_gone(std::function<void(std::string_view, std::uint64_t)> call) {
  std::uint64_t id = next_gone_++;
  gone_.emplace(id, std::move(call));
  return std::shared_ptr<void>(nullptr, [this, id](void*) { gone_.erase(id); });
}

}  // namespace atl::control
