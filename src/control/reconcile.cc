// SPDX-License-Identifier: Apache-2.0
//
// Reconcile: after a restart of control, or of the runner, the store's rows and the runner's list are
// compared until each sandbox is either known to both or gone from both. Each step may be repeated.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "control/service_impl.h"
#include "store/sandboxes.h"
#include "store/tenants.h"

namespace atl::control {
namespace {

constexpr Steady::duration kListAgain = std::chrono::seconds(1);

struct Loaded {
  std::uint64_t epoch = 0;
  bool same_boot = false;
  std::vector<store::StoredSandbox> sandboxes;
};

Result<Loaded> read_all(store::Connection& db, const std::string& boot_id) {
  Loaded loaded;
  TRY(loaded.epoch, store::next_owner_epoch(db));
  TRY(std::string boot, store::load_meta(db, "boot_id"));
  loaded.same_boot = boot == boot_id;
  TRY_VOID(store::save_meta(db, "boot_id", boot_id));
  TRY(loaded.sandboxes, store::load_live_sandboxes(db));
  return loaded;
}

bool rests_or_turns(model::State state) {
  return state == model::State::kPaused || state == model::State::kPausing ||
         state == model::State::kResuming;
}

bool has_slot(const model::SandboxRow& row) { return row.rests_in_memory && !row.interface.empty(); }

// Whether it has a place at all, and since when, its state does not tell: it wakes from its disk, or it ends
// and may have rested there.
bool place_unknown(const model::SandboxRow& row) {
  bool ends = row.state == model::State::kStopping || model::terminal(row.state);
  return (row.state == model::State::kResuming && !has_slot(row)) || (ends && row.interface.empty());
}

// Whether the process that the list shows as dead is the sandbox's still, whatever moved meanwhile: only a
// boot from its disk gives it another.
bool dead(const model::SandboxRow& row, const wire::ListReply& item) {
  return item.alive != 1 && (row.rests_in_memory || item.generation == row.generation);
}

}  // namespace

Result<void> SandboxService::load() {
  TRY(Loaded loaded,
      db_.run_blocking([boot = options_.boot_id](store::Connection& db) { return read_all(db, boot); }));
  TRY_VOID(snapshots_.load());
  count_snapshots();
  FAULT("reconcile.loaded");
  epoch_ = loaded.epoch;
  std::partition(loaded.sandboxes.begin(), loaded.sandboxes.end(),
                 [](const auto& stored) { return !place_unknown(stored.row); });
  for (auto& stored : loaded.sandboxes) {
    adopt_loaded(std::move(stored.row), loaded.same_boot);
  }
  log::info("store loaded", {{"sandboxes", live_.size()}, {"epoch", epoch_}});
  return {};
}

// Where the limits are full without it, a sandbox that began to boot, or rested when it was to end, had no
// place. What one that rests keeps on its disk is known when the runner has said it, and at most this until
// then.
void SandboxService::adopt_place(Live& live) {
  const model::SandboxRow& row = live.row;
  Amounts amounts = amounts_of(row.limits, model::overhead_of(row.tier, row.missing_layers));
  bool rests = row.state == model::State::kPaused && !has_slot(row);
  if (!rests && !place_unknown(row)) {
    live.place = quota_->adopt(row.tenant, amounts);
    return;
  }
  keep_on_disk(live, most_on_disk(row));
  if (rests) return;
  amounts.disk_bytes -= std::min(amounts.disk_bytes, live.kept.held().disk_bytes);
  auto place = quota_->reserve(row.tenant, amounts, limit_of(row.tenant));
  if (place) live.place = std::move(*place);
}

// The state alone says what was under way: each passing state has one operation.
void SandboxService::adopt_loaded(model::SandboxRow row, bool same_boot) {
  auto live = std::make_shared<Live>(executor_, clock_, std::move(row));
  live->row.owner_epoch = epoch_;
  // One that was on its way to rest may have come there.
  bool on_disk =
      rests_or_turns(live->row.state) && (!has_slot(live->row) || live->row.state == model::State::kPausing);
  adopt_place(*live);
  live->guest = std::make_shared<GuestClient>(guests_(live->row), live->row.internal_token);
  used_builds_.insert(live->row.build);
  live_.emplace(live->row.id, live);
  // What rests on its disk outlives the machine; the runner's list will say whether it does.
  if (!same_boot && !model::terminal(live->row.state) && !on_disk) {
    begin_end(live, Ending{model::kOutcomeLost, "the machine was restarted", model::State::kFailed});
    return;
  }
  switch (live->row.state) {
    case model::State::kRunning:
      live->adopted = true;
      restore_activity(*live);
      adopt_running(live);
      return;
    case model::State::kPaused:
      live->adopted = true;
      show_state(live);
      return;
    case model::State::kPausing:
      live->adopted = true;
      show_state(live);
      scope_.spawn("pause", recover_pause(live));
      return;
    case model::State::kResuming:
      live->adopted = true;
      if (!same_boot) set_deadline(*live, live->row.lifecycle.timeout);
      show_state(live);
      scope_.spawn("resume", recover_resume(live));
      return;
    case model::State::kReady:
      live->pooled = true;
      live->adopted = true;
      pools_[pool_key(*live)].ready.push_back(live);
      begin_warming(live);
      note_asked(pool_key(*live));  // it was, before the restart
      return;
    case model::State::kStopping:
      begin_end(live, Ending{live->row.outcome, live->row.reason, model::State::kStopped});
      return;
    case model::State::kStopped:
    case model::State::kFailed:
      begin_end(live, Ending{live->row.outcome, live->row.reason, live->row.state});
      return;
    default:
      // Nobody was told that it exists: undone.
      begin_end(live, Ending{model::kOutcomeInterrupted, "atoll-control was restarted half way",
                             model::State::kStopped});
  }
}

// Where the deadline passed while nobody watched, what it asks for is done now.
void SandboxService::adopt_running(const LivePtr& live) {
  if (live->row.deadline_steady_ms > steady_ms()) {
    publish(live);
  } else if (live->row.lifecycle.on_timeout == model::Lifecycle::OnTimeout::kPause) {
    show_state(live);
    pause_at_deadline(live);
  } else {
    // Not reachable for another moment.
    begin_end(live, Ending{model::kOutcomeTimedOut, std::string(), model::State::kStopped});
  }
}

Task<> SandboxService::reconcile() {
  Asked asked;
  // Only what was confirmed before the list was asked for must be in it.
  std::set<std::string> expected;
  for (const auto& [id, live] : live_) {
    asked[id] = {live->row.state, live->row.generation};
    if (live->adopted && !live->ending) expected.insert(id);
  }
  auto listed = co_await runner_.list();
  if (!listed) {
    log::warn("could not list what runs", {{"what", listed.error().message()}});
    // A new connection starts anew. Where this one stands, the runner was only slow.
    co_await async::sleep_for(kListAgain);
    if (runner_.connected() && !stopping_) scope_.spawn("reconcile", reconcile());
    co_return;
  }
  FAULT("reconcile.listed");
  reconcile_listed(*listed, asked);
  for (const auto& item : *listed) expected.erase(item.sandbox.str());
  for (const std::string& id : expected) {
    auto found = live_.find(id);
    if (found == live_.end() || found->second->ending || !stood_still(*found->second, asked)) continue;
    leave_pool(found->second);
    begin_end(found->second,
              Ending{model::kOutcomeLost, "the runner no longer knows it", model::State::kFailed});
  }
  FAULT("reconcile.done");
  reconciled_ = true;
  log::info("reconciled with the runner", {{"listed", listed->size()}, {"lost", expected.size()}});
  ask_for_refill();
  if (egress_.connected()) scope_.spawn("trust", tell_trust());
  comparing_ = true;
  scope_.spawn("reconcile snapshots", reconcile_snapshots());
}

void SandboxService::reconcile_listed(const std::vector<wire::ListReply>& listed, const Asked& asked) {
  for (const auto& item : listed) {
    std::string id = item.sandbox.str();
    auto found = live_.find(id);
    if (found == live_.end()) {
      // Held by the runner and by no row: its owner is gone, so it ends.
      model::SandboxRow row;
      row.id = id;
      row.generation = item.generation;
      auto orphan = std::make_shared<Live>(executor_, clock_, std::move(row));
      scope_.spawn("stop orphan " + id, stop_orphan(orphan));
      continue;
    }
    LivePtr live = found->second;
    if (live->ending) continue;  // its end task asks the runner again
    bool still = stood_still(*live, asked);
    if (still && live->kept && wire::on_disk(static_cast<wire::Rest>(item.rest)))
      keep_on_disk(*live, item.kept_bytes);
    bool lives = still ? agrees(live, item) : !dead(live->row, item);
    if (lives) continue;
    leave_pool(live);
    begin_end(live, Ending{model::kOutcomeAgentLost, "the guest daemon is gone", model::State::kFailed});
  }
}

// The list may be older than a pause or resume that went through since it was asked for, and it says nothing
// about one that is under way, whose task gets an answer of its own.
bool SandboxService::stood_still(const Live& live, const Asked& asked) {
  if (live.row.state == model::State::kPausing || live.row.state == model::State::kResuming) return false;
  auto was = asked.find(live.row.id);
  return was != asked.end() && was->second == std::make_pair(live.row.state, live.row.generation);
}

// Where the runner is only behind or ahead in a pause or resume, it is brought in line.
bool SandboxService::agrees(const LivePtr& live, const wire::ListReply& item) {
  if (item.alive != 1) return false;
  auto rest = static_cast<wire::Rest>(item.rest);
  switch (live->row.state) {
    case model::State::kPaused: {
      if (item.generation > live->row.generation) return false;
      // On its disk, and the row still has its slot: the answer to that pause was lost.
      bool told = !wire::on_disk(rest) || live->row.interface.empty();
      if (rest == wire::Rest::kRuns || wire::on_its_way(rest) || !told)
        scope_.spawn("rest", rest_again(live));
      return true;
    }
    default:
      if (item.generation != live->row.generation) return false;
      if (rest == wire::Rest::kRuns) return true;
      if (live->row.state != model::State::kRunning) return false;
      scope_.spawn("rest", follow_rest(live, rest != wire::Rest::kStored && rest != wire::Rest::kStoring));
      return true;
  }
}

Task<> SandboxService::stop_orphan(LivePtr orphan) {
  auto released = co_await release_once(orphan);
  FAULT("reconcile.orphan_stopped");
  if (released) {
    log::warn("stopped a sandbox that no row knows", {{"id", orphan->row.id}});
  } else {
    log::warn("could not stop a sandbox that no row knows",
              {{"id", orphan->row.id}, {"what", released.error().message()}});
  }
}

}  // namespace atl::control
