// SPDX-License-Identifier: Apache-2.0
//
// create: claim a ready sandbox or launch one, make it the tenant's, hand over its identity, and only then
// say so.
#include <algorithm>

#include "async/detach.h"
#include "base/random.h"
#include "control/service_impl.h"

namespace atl::control {
namespace {

constexpr std::size_t kTokenLength = 32;
constexpr std::size_t kMaxWaitingStarts = 4096;  // of all tenants
constexpr std::size_t kMaxWaitingStartsOfTenant = 512;

std::int64_t micros(Steady::duration time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

Error gone_meanwhile(const Live& live) {
  return make_error(Code::kUnavailable, "sandbox {} ended while it was being created: {}", live.row.id,
                    live.row.reason.empty() ? "killed" : live.row.reason)
      .with_word("create_failed")
      .with_hint("try again");
}

}  // namespace

Amounts SandboxService::limit_of(const std::string& tenant) const {
  const model::Tenant* row = identity_.find_tenant(tenant);
  Amounts limit = row ? row->limit : Amounts();
  if (limit.sandboxes == 0) limit.sandboxes = options_.max_sandboxes_per_tenant;
  return limit;
}

// The work goes on even when the client goes away in the middle: half a create would leave an orphan.
Task<Result<SandboxView>> SandboxService::create(CreateSpec spec) {
  if (stopping_ || closed_)
    co_return make_error(Code::kUnavailable, "shutting down").with_word("runner_unavailable");
  co_return co_await async::finish_in(scope_, "create", create_now(std::move(spec)));
}

Task<Result<SandboxView>> SandboxService::create_now(CreateSpec spec) {
  std::optional<Origin> origin;
  auto settle = [&]() -> Result<void> {
    TRY(Origin found, resolve(spec));
    TRY_VOID(require_tier(found.resolved.tier));
    origin.emplace(std::move(found));
    return success();
  };
  CO_TRY_VOID(co_await when_tested(settle));
  co_return co_await create_from(std::move(spec), origin->resolved);
}

Task<Result<SandboxView>> SandboxService::create_from(CreateSpec spec, Resolved resolved) {
  CO_TRY_VOID(require_tier(resolved.tier));
  bool secured = spec.secured == CreateSpec::Secured::kYes;
  if (!spec.labels.empty()) CO_TRY_VOID(require_labels(resolved.tier, spec.labels.size(), secured));
  struct InFlight {
    explicit InFlight(SandboxService& s) : service(s) { ++service.creating_; }
    ~InFlight() {
      --service.creating_;
      service.stopped_.notify_all();
    }
    SandboxService& service;
  } in_flight(*this);
  auto begun = Steady::now();
  CO_TRY(LivePtr live, co_await claim_ready(spec, resolved));
  if (!live) {
    CO_TRY(live, co_await launch_cold(spec, resolved));
  }
  auto owned = Steady::now();
  auto handed = co_await hand_over(live, spec, resolved);
  ask_for_refill();  // a tier that is asked for gets a pool, and only now, when this create is out of its way
  if (handed) {
    log::info("sandbox running", {{"id", live->row.id},
                                  {"template", live->row.alias},
                                  {"owned_us", micros(owned - begun)},
                                  {"total_us", micros(Steady::now() - begun)}});
    co_return SandboxView(live, &live->row);
  }
  begin_end(live, Ending{model::kOutcomeCreateFailed, handed.error().message(), model::State::kStopped});
  co_return std::move(handed).error();
}

void SandboxService::give_to_tenant(Live& live, const CreateSpec& spec, const Resolved& resolved) {
  model::SandboxRow& row = live.row;
  row.tenant = spec.tenant;
  row.template_id = resolved.base.id;
  row.alias = resolved.base.alias;
  row.asked = resolved.demand;
  row.owner_epoch = epoch_;
  row.metadata = spec.metadata;
  row.network = spec.network;
  row.labels = spec.labels;
  row.ingress = spec.ingress;
  row.lifecycle = spec.lifecycle;
  row.lifecycle.timeout = spec.timeout;
  row.lifecycle.idle_timeout = spec.idle_timeout.value_or(resolved.build.idle_timeout);
  set_waking(row.lifecycle, spec.auto_resume);
  row.user = resolved.build.user;
  row.workdir = resolved.build.workdir;
  if (spec.secured == CreateSpec::Secured::kYes) row.access_token = Secret(random_base36(kTokenLength));
  if (!spec.ingress.allow_public) row.traffic_token = Secret(random_base36(kTokenLength));
  row.created_at = clock_.now();
}

// It has its place. What is refused says nothing of what the pools should hold, and keeps nobody from filling
// them.
void SandboxService::note_accepted(const Resolved& resolved) {
  last_create_ = Steady::now();
  if (resolved.snapshot.empty()) note_asked({resolved.build.id, resolved.tier});
}

// nullptr when the pool has none.
Task<Result<LivePtr>> SandboxService::claim_ready(const CreateSpec& spec, const Resolved& resolved) {
  if (!resolved.snapshot.empty()) co_return LivePtr();
  auto pool = pools_.find({resolved.build.id, resolved.tier});
  // Until the runner's list is in, a loaded row may name a sandbox that is gone.
  if (!reconciled_ || pool == pools_.end() || pool->second.ready.empty()) co_return LivePtr();
  auto& ready = pool->second.ready;
  auto warm = std::find_if(ready.begin(), ready.end(), [](const LivePtr& one) { return !one->warming; });
  auto chosen = warm == ready.end() ? ready.begin() : warm;
  LivePtr live = *chosen;
  // Check and change happen in one step with no waiting in between, so the limit holds at every instant.
  CO_TRY_VOID(
      quota_->check(spec.tenant, amounts_for(live->row.tier, live->row.limits), limit_of(spec.tenant)));
  note_accepted(resolved);
  ready.erase(chosen);
  end_warming(*live);
  live->place = quota_->convert(std::move(live->place), spec.tenant);
  give_to_tenant(*live, spec, resolved);
  ask_for_refill();
  Step step;
  step.intent = model::Operation::kCreate;
  auto moved = co_await move(live, model::State::kCreating, std::move(step));
  FAULT("create.claimed");
  if (!moved) {
    // Its row still says `ready`, but its memory belongs to a tenant now: it is not given to another one.
    begin_end(live, Ending{model::kOutcomeDrained, moved.error().message(), model::State::kStopped});
    co_return std::move(moved).error();
  }
  co_return live;
}

// What sandboxes that wait in pools hold, and how many they are.
Amounts SandboxService::held_ready() const {
  Amounts sum;
  for (const auto& [key, pool] : pools_) {
    for (const LivePtr& live : pool.ready) add(sum, live->place.held());
  }
  return sum;
}

// On a full host sandboxes that wait in pools make room for one that is asked for, if they can.
Task<Result<Quota::Place>> SandboxService::reserve_place(std::string tenant, Amounts demand) {
  auto place = quota_->reserve(tenant, demand, limit_of(tenant));
  auto refused = [&] { return !place && place.error().word() == "capacity"; };
  for (auto tries = held_ready().sandboxes; tries > 0 && refused(); --tries) {
    auto pool = std::find_if(pools_.begin(), pools_.end(),
                             [](const auto& entry) { return !entry.second.ready.empty(); });
    if (pool == pools_.end() || !quota_->host_fits(demand, held_ready())) break;
    LivePtr victim = pool->second.ready.back();
    pool->second.ready.pop_back();
    begin_end(victim, Ending{model::kOutcomeDrained, std::string(), model::State::kStopped});
    while (!victim->released && !victim->release_error) co_await victim->changed.wait();
    place = quota_->reserve(tenant, demand, limit_of(tenant));
  }
  if (place) CO_TRY_VOID(room_.check(creating_));
  co_return place;
}

Task<Result<LivePtr>> SandboxService::launch_cold(const CreateSpec& spec, const Resolved& resolved) {
  CO_TRY(auto place, co_await reserve_place(spec.tenant, amounts_for(resolved.tier, resolved.build.limits)));
  note_accepted(resolved);
  auto live = std::make_shared<Live>(executor_, clock_, model::SandboxRow());
  live->place = std::move(place);
  live->row.id = model::new_sandbox_id();
  live->row.build = resolved.build.id;
  live->row.tier = resolved.tier;
  live->row.limits = resolved.build.limits;
  live->row.internal_token = random_key();
  give_to_tenant(*live, spec, resolved);
  live_.emplace(live->row.id, live);
  Step step;
  step.intent = model::Operation::kCreate;
  auto saved = co_await save(live, std::move(step));
  FAULT("create.row_written");
  if (!saved) {
    live_.erase(live->row.id);
    co_return std::move(saved).error();
  }
  auto started = co_await start_in_runner(live, resolved.snapshot, resolved.memory_token.has_value());
  FAULT("create.started");
  if (started && !live->ending) co_return live;
  Error why = started ? gone_meanwhile(*live) : std::move(started).error();
  begin_end(live, Ending{model::kOutcomeCreateFailed, why.message(), model::State::kStopped});
  co_return why;
}

// A start that copies a disk takes its turn among the copies, so that other starts do not wait for it.
Task<Result<wire::StartReply>> SandboxService::ask_to_start(LivePtr live, wire::StartRequest request) {
  bool copies = !request.snapshot.str().empty();
  async::Gate& gate = copies ? copies_ : starts_;
  const std::string& tenant = live->row.tenant;
  if (gate.waiting() >= kMaxWaitingStarts || gate.waiting(tenant) >= kMaxWaitingStartsOfTenant) {
    co_return make_error(Code::kUnavailable, "{} sandboxes wait to be started already", gate.waiting(tenant))
        .with_word("capacity")
        .with_hint("try again in a moment");
  }
  auto pass = co_await gate.enter(tenant);  // the pool's lane has no name
  // The runner may have said already that it holds nothing of it.
  if (live->ending) co_return gone_meanwhile(*live);
  co_return co_await runner_.start_sandbox(request);
}

Task<Result<void>> SandboxService::start_in_runner(LivePtr live, std::string snapshot, bool memory) {
  wire::StartRequest request = start_request(*live);
  request.memory = memory ? 1 : 0;
  request.snapshot.set(snapshot);
  used_builds_.insert(live->row.build);
  CO_TRY(auto reply, co_await ask_to_start(live, request));
  take_start_reply(*live, reply);
  co_return success();
}

wire::StartRequest SandboxService::start_request(const Live& live) const {
  wire::StartRequest request{};
  request.sandbox.set(live.row.id);
  request.generation = live.row.generation;
  request.owner_epoch = epoch_;
  request.build.set(live.row.build);
  request.tier = static_cast<std::uint8_t>(live.row.tier);
  request.internet = kernel_rules(live.row.network).internet ? 1 : 0;
  request.cpu_millis = live.row.limits.cpu_millis;
  request.processes = live.row.limits.processes;
  request.open_files = live.row.limits.open_files;
  request.memory_bytes = live.row.limits.memory_bytes;
  request.disk_bytes = live.row.limits.disk_bytes;
  std::copy(live.row.internal_token.begin(), live.row.internal_token.end(), request.internal_token);
  return request;
}

void SandboxService::take_start_reply(Live& live, const wire::StartReply& reply) {
  live.row.slot = reply.slot;
  live.row.interface = reply.interface.str();
  live.row.pid = reply.pid;
  live.row.start_ticks = reply.start_ticks;
  live.row.missing_layers = model::missing_layers(runner_.hello().features, live.row.tier);
  live.guest = std::make_shared<GuestClient>(guests_(live.row), live.row.internal_token);
  live.adopted = true;
  ++live.version;
}

GuestIdentity SandboxService::identity_of(const model::SandboxRow& row) const {
  GuestIdentity identity;
  identity.sandbox = row.id;
  identity.generation = row.generation;
  identity.template_id = row.template_id;
  identity.team = row.tenant;
  identity.keep_environment = true;
  identity.access_token = row.access_token;
  identity.user = row.user;
  identity.workdir = row.workdir;
  identity.labels = row.labels;
  identity.now = clock_.now();
  return identity;
}

// From here on the sandbox exists and is the tenant's; on success it runs and can be reached.
Task<Result<void>> SandboxService::hand_over(LivePtr live, const CreateSpec& spec, const Resolved& resolved) {
  model::NetworkRules started_with;
  model::NetworkRules rules = kernel_rules(live->row.network);
  started_with.internet = live->pooled || rules.internet;
  if (rules != started_with) {
    CO_TRY_VOID(co_await runner_.network(live->row.id, live->row.generation, rules));
    FAULT("create.network_set");
  }
  CO_TRY_VOID(co_await make_labels(live, live->row.labels));
  EgressFacts facts = facts_for_gateway(live->row);
  facts.hand_over = true;
  CO_TRY(EgressAnswer told, co_await egress_.make_known(std::move(facts)));
  FAULT("create.gateway_knows");
  if (live->ending) co_return gone_meanwhile(*live);
  GuestIdentity identity = identity_of(live->row);
  identity.keep_environment = spec.keep_environment;
  set_trust(identity, told);
  identity.envs = resolved.build.envs;
  identity.known_token = resolved.memory_token;
  for (const auto& [key, value] : spec.envs) identity.envs[key] = value;
  CO_TRY_VOID(co_await live->guest->init(std::move(identity)));
  live->trusts = std::move(told.authority_root);
  live->labels_told = true;
  FAULT("create.initialised");
  live->guest->close();
  if (live->ending) co_return gone_meanwhile(*live);
  live->row.started_at = clock_.now();
  live->activity->saw_none(Millis(0));
  live->row.active_steady_ms = steady_ms();
  set_deadline(*live, spec.timeout);
  Step step;
  step.event = "sandbox.created";
  step.message = "sandbox created";
  step.data = event_data({{"template", live->row.alias},
                          {"build", live->row.build},
                          {"isolation", model::tier_name(live->row.tier)},
                          {"asked", live->row.asked.word.text()}});
  step.count_spawn = true;
  auto moved = co_await move(live, model::State::kRunning, std::move(step));
  FAULT("create.running_written");
  CO_TRY_VOID(std::move(moved));
  if (live->ending) co_return gone_meanwhile(*live);
  catalog_.count_spawn(live->row.template_id, live->row.started_at);
  publish(live);
  co_return success();
}

}  // namespace atl::control
