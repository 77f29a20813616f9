// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/flows.h"

namespace atl::gateway {

Flows::Flows(Registry& registry)
    : registry_(registry),
      subscription_(registry.on_change([this](const std::string& sandbox) { judge(sandbox); })) {}

std::shared_ptr<void> Flows::open(const std::string& sandbox, Entry entry) {
  if (!entry.may_go_on(registry_.find(sandbox))) return nullptr;
  std::shared_ptr<List>& list = lists_[sandbox];
  if (!list) list = std::make_shared<List>();
  if (list->size() >= kMaxPerSandbox) return nullptr;
  auto place = list->insert(list->end(), std::move(entry));
  auto close = [this, sandbox, list, place](void*) {
    list->erase(place);
    auto known = lists_.find(sandbox);
    if (list->empty() && known != lists_.end() && known->second == list) lists_.erase(known);
  };
  return {list.get(), close};
}

std::size_t Flows::count(const std::string& sandbox) const {
  auto found = lists_.find(sandbox);
  return found == lists_.end() ? 0 : found->second->size();
}

// cut() only closes sockets: the flow's own task takes it out of the list later.
void Flows::judge(const std::string& sandbox) {
  auto found = lists_.find(sandbox);
  if (found == lists_.end()) return;
  SandboxPtr now = registry_.find(sandbox);
  std::shared_ptr<List> list = found->second;
  for (Entry& entry : *list) {
    if (!entry.may_go_on(now)) entry.cut();
  }
}

}  // namespace atl::gateway
