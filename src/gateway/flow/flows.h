// SPDX-License-Identifier: Apache-2.0
//
// Flows: the connections and requests of sandboxes that are open now, so that those can be cut that no longer
// may be.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "async/task.h"
#include "gateway/sandboxes/registry.h"

namespace atl::gateway {

// Use from the loop of `executor`.
class Flows {
 public:
  // More connections of one sandbox are refused: one cannot take what others need.
  static constexpr std::size_t kMaxPerSandbox = 12'288;
  // What is under way when its sandbox is about to be paused has so long to end.
  static constexpr auto kGrace = std::chrono::seconds(5);

  Flows(async::Executor executor, Registry& registry, Steady::duration grace = kGrace);

  struct Entry {
    // Whether it may go on under what is known now; null `now`: the sandbox is gone.
    std::function<bool(const SandboxPtr& now)> may_go_on;
    std::function<void()> cut;
    // It has an end that is worth waiting for: while one of them is under way, nothing of a sandbox that is
    // pausing is cut for that. Other connections are cut with the last of them.
    bool request = false;
  };
  // Keeps the flow until the handle is destroyed. Null when it may not go on already, or when the sandbox has
  // too many.
  std::shared_ptr<void> open(const std::string& sandbox, Entry entry);
  std::size_t count(const std::string& sandbox) const;
  // The requests of a sandbox that have not ended, and how long ago the last one did (or this began). A
  // connection that is passed as it is has no end that could be waited for, and is none.
  std::size_t requests(const std::string& sandbox) const;
  Steady::duration quiet(const std::string& sandbox) const;
  // The requests that a pause waits for; 0 when it need not wait any more.
  std::size_t under_way(const std::string& sandbox) const;

 private:
  using List = std::list<Entry>;
  // A sandbox that is pausing.
  struct Rest {
    async::asio::steady_timer timer;
    bool over = false;  // the grace
  };
  void judge(const std::string& sandbox);
  bool waits(const std::string& sandbox, const List& list);
  void end_grace(const std::string& sandbox);
  static std::size_t requests(const List& list);

  async::Executor executor_;
  Registry& registry_;
  const Steady::duration grace_;
  std::unordered_map<std::string, std::shared_ptr<List>> lists_;
  std::unordered_map<std::string, std::shared_ptr<Rest>> rests_;
  const Steady::time_point begun_ = Steady::now();
  std::unordered_map<std::string, Steady::time_point> ended_;  // the last request of those that are known
  std::shared_ptr<void> subscription_;
};

}  // namespace atl::gateway
