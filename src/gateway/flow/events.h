// SPDX-License-Identifier: Apache-2.0
//
// Events: what the gateway tells control for the journal, kept until control fetches it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gateway/approvals/approval.h"
#include "gateway/names/authority.h"
#include "gateway/policy/policy.h"
#include "gateway/sandboxes/registry.h"

namespace atl::gateway {

struct EgressEvent {
  WallTime at;
  std::string tenant;
  std::string sandbox;
  std::string type;  // "egress.denied", "egress.name_denied", "egress.cut", "egress.shadow", "approval.asked"
  std::string target;
  std::string rule;
  std::string reason;
  std::string label = {};       // of the process; empty when it has none
  std::string approval = {};    // the id of one
  std::string decided_by = {};  // a person's key
};

// Bounded by number and by each sandbox's pace. Use from one loop.
class Events {
 public:
  // Beyond these the oldest go, and are counted: a sandbox that tries all the time must not fill the memory.
  static constexpr std::size_t kMost = 10'000;
  static constexpr std::size_t kMostPerSandboxAndSecond = 20;

  explicit Events(const Clock& clock) : clock_(clock) {}
  void denied(const Sandbox& sandbox, std::string_view target, const policy::Refusal& refusal,
              const std::string& label);
  void add(const Sandbox& sandbox, std::string type, std::string_view target, std::string rule,
           std::string reason, const std::string& label);
  // A question to a person, and what became of it. What a person has decided is told at any pace.
  void add(const Approval& approval);
  // The oldest after number `have`, and how many were lost since the last call. Those up to `have` are in the
  // journal and go; the others are kept until they are, too.
  struct Batch {
    std::vector<EgressEvent> events;
    std::uint64_t last = 0;  // number of the last of them, `have` when there are none
    std::uint64_t lost = 0;
  };
  static constexpr std::size_t kMostPerBatch = 200;
  Batch after(std::uint64_t have);

 private:
  struct Pace {
    std::int64_t second = 0;
    std::size_t count = 0;
  };
  void keep(EgressEvent event);
  bool too_many(const std::string& sandbox, WallTime now);

  const Clock& clock_;
  std::deque<EgressEvent> waiting_;
  std::uint64_t first_ = 1;  // number of the first that waits
  std::unordered_map<std::string, Pace> pace_;
  std::uint64_t lost_ = 0;
};

}  // namespace atl::gateway
