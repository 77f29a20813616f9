// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/flows.h"

#include <algorithm>
#include <utility>

namespace atl::gateway {
namespace {

// As if it were not about to be paused.
SandboxPtr awake(const SandboxPtr& now) {
  auto out = std::make_shared<Sandbox>(*now);
  out->state = model::State::kRunning;
  return out;
}

}  // namespace

Flows::Flows(async::Executor executor, Registry& registry, Steady::duration grace)
    : executor_(std::move(executor)),
      registry_(registry),
      grace_(grace),
      subscription_(registry.on_change([this](const std::string& sandbox) { judge(sandbox); })) {}

std::shared_ptr<void> Flows::open(const std::string& sandbox, Entry entry) {
  if (!entry.may_go_on(registry_.find(sandbox))) return nullptr;
  std::shared_ptr<List>& list = lists_[sandbox];
  if (!list) list = std::make_shared<List>();
  if (list->size() >= kMaxPerSandbox) return nullptr;
  auto place = list->insert(list->end(), std::move(entry));
  auto close = [this, sandbox, list, place](void*) {
    if (place->request && registry_.find(sandbox)) ended_[sandbox] = Steady::now();
    list->erase(place);
    auto known = lists_.find(sandbox);
    if (list->empty() && known != lists_.end() && known->second == list) lists_.erase(known);
    auto rest = rests_.find(sandbox);
    if (rest == rests_.end() || requests(*list) > 0) return;
    // Later: whoever gave the handle up may be about to end what others would cut.
    async::asio::post(executor_, [this, sandbox, mine = std::weak_ptr<Rest>(rest->second)] {
      if (!mine.expired()) end_grace(sandbox);
    });
  };
  return {list.get(), close};
}

std::size_t Flows::count(const std::string& sandbox) const {
  auto found = lists_.find(sandbox);
  return found == lists_.end() ? 0 : found->second->size();
}

std::size_t Flows::requests(const std::string& sandbox) const {
  auto found = lists_.find(sandbox);
  return found == lists_.end() ? 0 : requests(*found->second);
}

Steady::duration Flows::quiet(const std::string& sandbox) const {
  auto found = ended_.find(sandbox);
  return Steady::now() - (found == ended_.end() ? begun_ : found->second);
}

std::size_t Flows::requests(const List& list) {
  return static_cast<std::size_t>(
      std::count_if(list.begin(), list.end(), [](const Entry& entry) { return entry.request; }));
}

std::size_t Flows::under_way(const std::string& sandbox) const {
  auto rest = rests_.find(sandbox);
  auto found = lists_.find(sandbox);
  bool waits = rest != rests_.end() && !rest->second->over && found != lists_.end();
  return waits ? requests(*found->second) : 0;
}

// Whether what is under way in a sandbox that is pausing has time left.
bool Flows::waits(const std::string& sandbox, const List& list) {
  std::shared_ptr<Rest>& rest = rests_[sandbox];
  if (!rest) {
    rest = std::make_shared<Rest>(Rest{async::asio::steady_timer(executor_, grace_)});
    std::weak_ptr<Rest> mine = rest;
    rest->timer.async_wait([this, sandbox, mine](const boost::system::error_code& stopped) {
      if (!stopped && !mine.expired()) end_grace(sandbox);
    });
  }
  rest->over = rest->over || requests(list) == 0;
  return !rest->over;
}

void Flows::end_grace(const std::string& sandbox) {
  auto rest = rests_.find(sandbox);
  if (rest == rests_.end() || std::exchange(rest->second->over, true)) return;
  rest->second->timer.cancel();
  judge(sandbox);
}

// cut() only closes sockets: the flow's own task takes it out of the list later.
void Flows::judge(const std::string& sandbox) {
  SandboxPtr now = registry_.find(sandbox);
  bool pausing = now && now->state == model::State::kPausing;
  if (!pausing) rests_.erase(sandbox);
  if (!now) ended_.erase(sandbox);
  auto found = lists_.find(sandbox);
  if (found == lists_.end()) return;
  std::shared_ptr<List> list = found->second;
  if (pausing && waits(sandbox, *list)) now = awake(now);
  for (Entry& entry : *list) {
    if (!entry.may_go_on(now)) entry.cut();
  }
}

}  // namespace atl::gateway
