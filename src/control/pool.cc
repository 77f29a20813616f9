// SPDX-License-Identifier: Apache-2.0
//
// The pools: sandboxes launched ahead, per tier and build that a template's tag `default` names. That of the
// host's own tier is kept at its size; one of another tier is as large as the recent demand for it, at most
// that size. Refilled off the critical path, drained when their template changes or goes.
#include <algorithm>
#include <utility>

#include "base/random.h"
#include "control/service_impl.h"

namespace atl::control {
namespace {

constexpr std::size_t kMaxLaunching = 2;  // at a time per pool: more only compete for the same cores
constexpr std::size_t kMaxAsked = 1000;   // remembered per pool; no pool is larger
constexpr Steady::duration kRecent = std::chrono::minutes(10);
constexpr Steady::duration kQuiet =
    std::chrono::milliseconds(15);  // no create in this time: the critical path is free
constexpr Steady::duration kMaxFailureWait = std::chrono::seconds(30);
constexpr Steady::duration kIdleCheck = std::chrono::seconds(30);

Steady::duration failure_wait(std::uint32_t failures) {
  auto wait = std::chrono::milliseconds(250) * (1u << std::min(failures, 8u));
  return std::min<Steady::duration>(wait, kMaxFailureWait);
}

}  // namespace

void SandboxService::note_asked(const PoolKey& key) {
  auto& asked = pools_[key].asked;
  asked.push_back(clock_.steady_now());
  if (asked.size() > kMaxAsked) asked.pop_front();
}

void SandboxService::forget_old_asks() {
  auto oldest = clock_.steady_now() - kRecent;
  for (auto& [key, pool] : pools_) {
    while (!pool.asked.empty() && pool.asked.front() < oldest) pool.asked.pop_front();
  }
}

void SandboxService::leave_pool(const LivePtr& live) {
  end_warming(*live);
  auto pool = pools_.find(pool_key(*live));
  if (pool != pools_.end()) std::erase(pool->second.ready, live);
}

// As far as the runner has said.
bool SandboxService::offers(model::Tier tier) const {
  return !runner_.connected() || usable(tier) || being_tested(tier);
}

std::size_t SandboxService::wanted_ready(const model::Template& base, const PoolKey& key) const {
  if (!offers(key.tier)) return 0;
  std::size_t most = base.pool_size.value_or(options_.pool_size);
  if (key.tier == pool_tier(base)) return most;
  auto pool = pools_.find(key);
  return pool == pools_.end() ? 0 : std::min(most, pool->second.asked.size());
}

// How many sandboxes of which build and tier to keep ready. Templates used last come first when there is not
// room for all.
std::map<SandboxService::PoolKey, SandboxService::PoolPlan> SandboxService::plan_pools() const {
  std::vector<const model::Template*> order;
  for (const auto& [id, base] : catalog_.all()) order.push_back(&base);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::tie(b->last_spawned_at, a->id) < std::tie(a->last_spawned_at, b->id);
  });
  std::map<PoolKey, PoolPlan> plan;
  std::size_t room = options_.max_ready;
  for (const model::Template* base : order) {
    auto tag = base->tags.find(model::kDefaultTag);
    if (tag == base->tags.end()) continue;
    for (model::Tier tier : {model::Tier::kContainer, model::Tier::kGvisor, model::Tier::kMicrovm}) {
      PoolKey key{tag->second, tier};
      std::size_t size = std::min(wanted_ready(*base, key), room);
      if (size == 0) continue;
      room -= size;
      plan[key] = PoolPlan{base->id, size};
    }
  }
  return plan;
}

// A build that no template, no snapshot and no sandbox uses any more: the runner closes its image, so that
// its files can go.
void SandboxService::forget_unused_builds() {
  std::set<std::string> gone;
  for (const std::string& build : used_builds_) {
    if (!catalog_.build(build) && !snapshots_.uses_build(build)) gone.insert(build);
  }
  for (const auto& [id, live] : live_) gone.erase(live->row.build);
  if (!runner_.connected() || stopping_) return;
  for (const std::string& build : gone) {
    used_builds_.erase(build);
    scope_.spawn("forget a build", forget_build(build));
  }
}

Task<> SandboxService::forget_build(std::string build) {
  auto done = co_await runner_.forget_build(build);
  if (!done)
    log::warn("the runner could not forget a build", {{"build", build}, {"what", done.error().message()}});
}

void SandboxService::ask_for_refill() { refill_.notify_all(); }

void SandboxService::drain_ready(Pool& pool, std::size_t keep) {
  while (pool.ready.size() > keep) {
    begin_end(pool.ready.back(), Ending{model::kOutcomeDrained, std::string(), model::State::kStopped});
    pool.ready.pop_back();
  }
}

// Brings each pool to its size: drains what is no longer wanted, starts what is missing.
void SandboxService::fill_pools() {
  forget_unused_builds();
  forget_old_asks();
  auto plan = plan_pools();
  for (auto& [key, pool] : pools_) {
    auto found = plan.find(key);
    drain_ready(pool, found == plan.end() ? 0 : found->second.size);
  }
  std::erase_if(pools_, [&](const auto& entry) {
    const Pool& pool = entry.second;
    return !plan.count(entry.first) && pool.ready.empty() && pool.asked.empty() && pool.launching == 0;
  });
  if (!reconciled_ || stopping_ || closed_) return;
  for (const auto& [key, wanted] : plan) {
    if (being_tested(key.tier)) continue;  // what is ready stays, and the end of the test calls again
    Pool& pool = pools_[key];
    // Asked for each one anew: a launch may fail before spawn() returns, for want of a place.
    while (pool.launching + pool.warming < kMaxLaunching &&
           pool.ready.size() + pool.launching < wanted.size && Steady::now() >= pool.not_before) {
      ++pool.launching;
      scope_.spawn("launch for the pool", launch_ready(wanted.template_id, key));
    }
  }
}

Task<> SandboxService::launch_ready(std::string template_id, PoolKey key) {
  auto launched = co_await launch_for_pool(template_id, key);
  // The pool may have gone while this one was started.
  Pool& pool = pools_[key];
  --pool.launching;
  if (launched) {
    pool.failures = 0;
    LivePtr live = *launched;
    if (!live->ending) {
      pool.ready.push_back(live);
      begin_warming(live);
    }
  } else {
    pool.not_before = Steady::now() + failure_wait(pool.failures++);
    if (launched.error().word() != "capacity") {
      log::warn("could not launch a sandbox for the pool", {{"build", key.build},
                                                            {"isolation", model::tier_name(key.tier)},
                                                            {"what", launched.error().message()}});
    }
  }
  stopped_.notify_all();
  ask_for_refill();
}

// Until its start command is ready, one in the pool is taken only when there is no other: that is still
// sooner than a start. One whose command does not get ready in time stays: a new one would fare no better.
void SandboxService::begin_warming(const LivePtr& live) {
  live->warming = true;
  ++pools_[pool_key(*live)].warming;
  scope_.spawn("warm up", warm_up(live));
}

void SandboxService::end_warming(Live& live) {
  if (std::exchange(live.warming, false)) --pools_[pool_key(live)].warming;
}

Task<> SandboxService::warm_up(LivePtr live) {
  auto started = co_await live->guest->wait_until_started();
  if (!live->warming) co_return;  // it has left the pool
  end_warming(*live);
  if (!started)
    log::warn("a sandbox in the pool is not ready", {{"id", live->row.id},
                                                     {"build", live->row.build},
                                                     {"isolation", model::tier_name(live->row.tier)},
                                                     {"word", started.error().word()},
                                                     {"what", started.error().message()}});
  stopped_.notify_all();
  ask_for_refill();
}

Task<Result<LivePtr>> SandboxService::launch_for_pool(std::string template_id, PoolKey key) {
  const model::Build* build = catalog_.build(key.build);
  if (!build) co_return make_error(Code::kNotFound, "build {} is gone", key.build);
  CO_TRY_VOID(room_.check(creating_));
  CO_TRY(auto place, quota_->reserve(std::string(), amounts_for(key.tier, build->limits), {}));
  auto live = std::make_shared<Live>(executor_, clock_, model::SandboxRow());
  live->place = std::move(place);
  live->pooled = true;
  live->row.id = model::new_sandbox_id();
  live->row.template_id = template_id;
  live->row.build = key.build;
  live->row.tier = key.tier;
  live->row.limits = build->limits;
  live->row.internal_token = random_key();
  live->row.owner_epoch = epoch_;
  live->row.created_at = clock_.now();
  live_.emplace(live->row.id, live);
  Step launch;
  launch.intent = model::Operation::kLaunch;
  auto ready = co_await save(live, std::move(launch));
  FAULT("pool.row_written");
  if (!ready) {
    live_.erase(live->row.id);
    co_return std::move(ready).error();
  }
  ready = co_await start_in_runner(live, std::string(), false);
  FAULT("pool.started");
  if (ready) ready = co_await live->guest->wait_until_up();
  if (ready && !live->ending) ready = co_await move(live, model::State::kReady, Step());
  FAULT("pool.ready_written");
  if (ready && !live->ending) co_return live;
  Error why =
      ready ? make_error(Code::kUnavailable, "it ended: {}", live->row.reason) : std::move(ready).error();
  begin_end(live, Ending{model::kOutcomeCreateFailed, why.message(), model::State::kStopped});
  co_return why;
}

Task<> SandboxService::refill_loop() {
  co_await async::asio::this_coro::throw_if_cancelled(false);
  while (!stopping_) {
    auto quiet_at = last_create_ + kQuiet;
    bool any_ready = std::any_of(pools_.begin(), pools_.end(),
                                 [](const auto& entry) { return !entry.second.ready.empty(); });
    if (Steady::now() < quiet_at && (creating_ > 0 || any_ready)) {
      co_await async::sleep_for(quiet_at - Steady::now());
      if (any_ready) continue;
    }
    fill_pools();
    auto until = Steady::now() + kIdleCheck;
    for (const auto& [key, pool] : pools_) {
      if (pool.not_before > Steady::now()) until = std::min(until, pool.not_before);
    }
    co_await refill_.wait_until(until);
  }
}

}  // namespace atl::control
