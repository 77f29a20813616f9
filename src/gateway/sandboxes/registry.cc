// SPDX-License-Identifier: Apache-2.0
#include "gateway/sandboxes/registry.h"

#include <set>

namespace atl::gateway {

void Registry::put(Sandbox sandbox) {
  auto known = by_id_.find(sandbox.id);
  if (known != by_id_.end() && known->second->generation > sandbox.generation) return;
  if (known != by_id_.end() && known->second->slot != sandbox.slot) by_slot_.erase(known->second->slot);
  auto holder = by_slot_.find(sandbox.slot);
  if (holder != by_slot_.end() && holder->second->id != sandbox.id) drop(std::string(holder->second->id));
  std::string id = sandbox.id;
  auto shared = std::make_shared<const Sandbox>(std::move(sandbox));
  by_id_[id] = shared;
  by_slot_[shared->slot] = shared;
  tell(id);
}

void Registry::remove(std::string_view id, std::uint64_t generation) {
  auto known = by_id_.find(id);
  if (known == by_id_.end() || known->second->generation > generation) return;
  drop(std::string(id));
}

void Registry::replace_all(std::vector<Sandbox> sandboxes) {
  std::set<std::string> wanted;
  for (const Sandbox& sandbox : sandboxes) wanted.insert(sandbox.id);
  std::vector<std::string> gone;
  for (const auto& [id, sandbox] : by_id_) {
    if (!wanted.contains(id)) gone.push_back(id);
  }
  for (const std::string& id : gone) drop(id);
  for (Sandbox& sandbox : sandboxes) put(std::move(sandbox));
}

void Registry::drop(const std::string& id) {
  auto known = by_id_.find(id);
  if (known == by_id_.end()) return;
  auto holder = by_slot_.find(known->second->slot);
  if (holder != by_slot_.end() && holder->second->id == id) by_slot_.erase(holder);
  by_id_.erase(known);
  tell(id);
}

SandboxPtr Registry::by_slot(std::uint32_t slot) const {
  auto found = by_slot_.find(slot);
  return found == by_slot_.end() ? nullptr : found->second;
}

SandboxPtr Registry::find(std::string_view id) const {
  auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

std::vector<SandboxPtr> Registry::all() const {
  std::vector<SandboxPtr> out;
  for (const auto& [id, sandbox] : by_id_) out.push_back(sandbox);
  return out;
}

std::shared_ptr<void> Registry::on_change(std::function<void(const std::string&)> call) {
  auto held = std::make_shared<Call>(std::move(call));
  std::erase_if(calls_, [](const auto& one) { return one.expired(); });
  calls_.push_back(held);
  return held;
}

// A call may subscribe and unsubscribe, itself too, and change the registry.
void Registry::tell(const std::string& id) {
  auto calls = calls_;
  for (const auto& one : calls) {
    if (auto call = one.lock()) (*call)(id);
  }
}

}  // namespace atl::gateway
