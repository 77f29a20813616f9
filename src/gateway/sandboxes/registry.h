// SPDX-License-Identifier: Apache-2.0
//
// Registry: the sandboxes that the gateway knows, as control tells them. What is not in it has no way out.
// Everything runs on the gateway's loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <boost/json/fwd.hpp>

#include "base/clock.h"
#include "model/sandbox.h"

namespace atl::gateway {

namespace policy {
class Policy;
}
struct EgressProxy;

// One sandbox at one moment. Shared and immutable; a change makes a new one.
struct Sandbox {
  std::string id;
  std::string tenant;
  std::string template_id;
  std::uint64_t generation = 0;
  std::uint32_t slot = 0;
  model::State state = model::State::kRunning;
  std::vector<std::string> labels;                     // of its commands, by number less one
  std::shared_ptr<const boost::json::object> network;  // what control says of it, for `policy`
  std::shared_ptr<const policy::Policy> policy;
  std::shared_ptr<const EgressProxy> proxy;  // null: connections leave from this host
};
using SandboxPtr = std::shared_ptr<const Sandbox>;

// Use from one loop.
class Registry {
 public:
  // How long the gateway believes what it was told without hearing anything from control.
  static constexpr auto kPatience = std::chrono::seconds(10);

  // A sandbox is new or has changed. One that holds the same slot is gone, whatever its state was; an older
  // generation than the known one is ignored.
  void put(Sandbox sandbox);
  // It is gone. Of an older generation than the known one: ignored.
  void remove(std::string_view id, std::uint64_t generation);
  // These and no others are there.
  void replace_all(std::vector<Sandbox> sandboxes);

  // Null when nobody is known there.
  SandboxPtr by_slot(std::uint32_t slot) const;
  SandboxPtr find(std::string_view id) const;
  std::size_t size() const { return by_id_.size(); }
  std::vector<SandboxPtr> all() const;

  // Control has said something; it does so once a second at least.
  void heard() { heard_ = Steady::now(); }
  // True while what is here can be taken for the truth; after a silence of kPatience nothing sensitive works.
  bool fresh() const { return heard_ && Steady::now() - *heard_ < kPatience; }

  // Called with the id when a sandbox has changed or gone, after the change. The handle unsubscribes; also a
  // call may let handles go.
  std::shared_ptr<void> on_change(std::function<void(const std::string& id)> call);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  using Call = std::function<void(const std::string&)>;

  void drop(const std::string& id);
  void tell(const std::string& id);

  std::unordered_map<std::string, SandboxPtr, Hash, std::equal_to<>> by_id_;
  std::unordered_map<std::uint32_t, SandboxPtr> by_slot_;
  std::optional<Steady::time_point> heard_;
  std::vector<std::weak_ptr<Call>> calls_;  // those whose handle has gone too, until the next one comes
};

}  // namespace atl::gateway
