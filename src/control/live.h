// SPDX-License-Identifier: Apache-2.0
//
// Live: one sandbox that is not over yet, as control holds it in memory. Its row is the truth that goes to
// the store; the rest can be made anew after a restart.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "async/event.h"
#include "control/activity.h"
#include "control/directory.h"
#include "control/guest_client.h"
#include "control/quota.h"
#include "model/record.h"

namespace atl::control {

struct MetricSample {
  WallTime at;
  double cpu_pct = 0;  // 100 = one core
  std::uint64_t memory_used = 0;
  std::uint64_t memory_total = 0;
  std::uint64_t memory_cache = 0;
  std::uint64_t disk_used = 0;
  std::uint64_t disk_total = 0;
};

// CPU time at one moment, of one run of the sandbox.
struct CpuReading {
  std::uint64_t us = 0;
  Steady::time_point at{};
  std::uint64_t generation = 0;
  bool known = false;  // there was one before it, so what happened in between is known
};

// How long the parts of a pause or resume took, for the log.
struct Laps {
  void begin() {
    mark = Steady::now();
    intent_us = guest_us = runner_us = 0;
  }
  void lap(std::int64_t& us) {
    auto now = Steady::now();
    us = std::chrono::duration_cast<std::chrono::microseconds>(now - mark).count();
    mark = now;
  }
  Steady::time_point mark{};
  std::int64_t intent_us = 0;  // until the intent was on the disk
  std::int64_t guest_us = 0;   // until the guest daemon had answered
  std::int64_t runner_us = 0;  // until the runner had
};

// How a sandbox ends: what its row will say.
struct Ending {
  std::string outcome = model::kOutcomeKilled;
  std::string reason;                          // for people, empty when it was asked for
  model::State last = model::State::kStopped;  // or kFailed, entered at once
};

// Place in a list: start time and id.
using StartKeyOf = std::pair<std::int64_t, std::string>;

// One of them.
struct Live {
  Live(async::Executor executor, const Clock& clock, model::SandboxRow r)
      : row(std::move(r)), activity(std::make_shared<Activity>(clock)), changed(std::move(executor)) {}

  model::SandboxRow row;
  std::uint64_t version = 0;  // grows with each change of the row in memory
  Quota::Place place;
  // While it rests on its disk: what that takes there, as the runner measured it, or at most. While it wakes
  // `place` has the rest of its disk, and then all of it.
  Quota::Place kept;
  std::shared_ptr<GuestClient> guest;
  RoutePtr route;
  std::shared_ptr<Activity> activity;
  std::optional<CpuReading> usage;   // the last one, while it may sleep
  Steady::time_point asked_at{};     // its guest daemon, what it does
  bool asking = false;               // whether it may sleep is being found out
  std::deque<MetricSample> metrics;  // at most kMaxSamples
  std::uint64_t last_cpu_us = 0;
  std::optional<Steady::time_point> last_cpu_at;

  Laps laps;
  std::string trusts;        // EgressAnswer::authority_root, as its guest daemon was told; empty: not known
  bool pooled = false;       // launched for the pool: started with the policy `open`
  bool warming = false;      // it waits in a pool, and its start command is not ready yet
  bool adopted = false;      // the runner's list or answer has confirmed it: later lists must show it
  bool labelling = false;    // labels are being added; who adds others waits
  bool labels_told = false;  // its guest daemon has heard of all of them
  std::optional<Steady::time_point> timeout_told;  // when the journal was last told of a new timeout
  bool copying = false;                            // its disk is being copied; the next copy waits
  bool held = false;                               // nobody may connect for a moment; who wants to waits
  std::uint64_t outside = 0;  // connections that led to the outside when its guest daemon was asked to rest
  bool ending = false;        // no way back; the end task runs
  std::optional<StartKeyOf> listed_as;  // its place in the list of its tenant
  bool end_unwritten = false;           // that it ends could not be written down
  bool released = false;                // the runner holds nothing of it any more
  std::optional<Error> release_error;   // why the last attempt to release it failed
  async::Event changed;                 // of any of these
};
using LivePtr = std::shared_ptr<Live>;

}  // namespace atl::control
