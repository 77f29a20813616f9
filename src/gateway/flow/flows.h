// SPDX-License-Identifier: Apache-2.0
//
// Flows: the connections of sandboxes that are open now, so that those can be cut that no longer may be.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "gateway/sandboxes/registry.h"

namespace atl::gateway {

class Flows {
 public:
  // More connections of one sandbox are refused: one cannot take what others need.
  static constexpr std::size_t kMaxPerSandbox = 12'288;

  explicit Flows(Registry& registry);

  struct Entry {
    // Whether it may go on under what is known now; null `now`: the sandbox is gone.
    std::function<bool(const SandboxPtr& now)> may_go_on;
    std::function<void()> cut;
  };
  // Keeps the flow until the handle is destroyed. Null when it may not go on already, or when the sandbox has
  // too many.
  std::shared_ptr<void> open(const std::string& sandbox, Entry entry);
  std::size_t count(const std::string& sandbox) const;

 private:
  using List = std::list<Entry>;
  void judge(const std::string& sandbox);

  Registry& registry_;
  std::unordered_map<std::string, std::shared_ptr<List>> lists_;
  std::shared_ptr<void> subscription_;
};

}  // namespace atl::gateway
