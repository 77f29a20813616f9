// SPDX-License-Identifier: Apache-2.0
#include "control/sandbox_service.h"

#include <algorithm>
#include <utility>

#include "async/detach.h"
#include "base/bytes.h"
#include "base/check.h"
#include "control/service_impl.h"
#include "store/sandboxes.h"
#include "store/templates.h"

namespace atl::control {
namespace {

// A request to the runner has a deadline from when it is sent, so few are sent at a time.
constexpr std::size_t kParallelStarts = 16;
constexpr std::size_t kParallelStops = 16;
constexpr std::size_t kParallelAsks = 16;
constexpr std::size_t kParallelCopies = 2;  // half of the runner's workers
constexpr Steady::duration kMaxTimerWait = std::chrono::seconds(60);
constexpr Steady::duration kGrace = std::chrono::seconds(5);  // for creates under way at shutdown
constexpr Millis kKeepEvents = std::chrono::hours(24 * 7);
constexpr std::size_t kMaxEvents = 500'000;
constexpr Millis kKeepEnded = std::chrono::hours(24 * 7);
constexpr std::size_t kMaxEnded = 50'000;
constexpr std::size_t kPruneStep = 2'000;
constexpr Steady::duration kTimeoutEvents = std::chrono::minutes(1);  // at least, between those of a sandbox

Error no_such(const std::string& id) {
  return make_error(Code::kNotFound, "sandbox '{}' not found", id)
      .with_word("sandbox_not_found")
      .with_hint("it may have reached its timeout or been killed; 'atoll ps' lists those that run");
}

Amounts host_limit(const ServiceOptions& options) {
  Amounts limit = options.max_sums;
  limit.sandboxes = options.max_sandboxes;
  return limit;
}

}  // namespace

Error not_running(const model::SandboxRow& row) {
  return make_error(Code::kConflict, "sandbox '{}' is {}", row.id, model::state_name(row.state))
      .with_word("sandbox_not_running")
      .with_hint("connect to it first; that resumes it");
}

SandboxService::SandboxService(async::Executor executor, store::Database& db, Clock& clock, Catalog& catalog,
                               Identity& identity, RunnerClient::Connect connect_runner, GuestNetwork guests,
                               ServiceOptions options)
    : executor_(executor),
      db_(db),
      clock_(clock),
      catalog_(catalog),
      identity_(identity),
      options_(std::move(options)),
      guests_(std::move(guests)),
      runner_(executor, std::move(connect_runner)),
      egress_(
          executor, options_.connect_gateway, [this] { return all_egress(); },
          [this](std::vector<model::Event> events) { return keep_events(std::move(events)); },
          [this] { scope_.spawn("trust", tell_trust()); }),
      scope_(executor),
      deadlines_changed_(executor),
      refill_(executor),
      runner_up_(executor),
      host_changed_(executor),
      stopped_(executor),
      starts_(executor, kParallelStarts),
      stops_(executor, kParallelStops),
      asks_(executor, kParallelAsks),
      copies_(executor, kParallelCopies),
      snapshots_(db, clock),
      quota_(std::make_shared<Quota>(host_limit(options_))),
      room_(options_.measure_host, clock_) {}

SandboxService::~SandboxService() = default;

void SandboxService::start() {
  RunnerClient::Listener listener;
  listener.connected = [this] {
    tell_default();
    scope_.spawn("reconcile", reconcile());
    runner_up_.notify_all();
  };
  listener.disconnected = [this] {
    reconciled_ = false;
    host_changed_.notify_all();
  };
  listener.host_changed = [this] {
    tell_default();
    ask_for_refill();
    host_changed_.notify_all();
  };
  listener.exited = [this](const wire::ExitedEvent& event) { handle_exit(event); };
  runner_.start(std::move(listener));
  egress_.start();
  catalog_.on_change([this] { ask_for_refill(); });
  if (options_.background == ServiceOptions::Background::kNo) return;
  scope_.spawn("deadlines", deadline_loop());
  scope_.spawn("pool", refill_loop());
  scope_.spawn("metrics", metrics_loop());
  scope_.spawn("idle", idle_loop());
  scope_.spawn("prune", prune_loop());
}

Task<> SandboxService::stop() {
  stopping_ = true;
  auto limit = Steady::now() + kGrace;
  while (creating_ > 0 && co_await stopped_.wait_until(limit)) {}
  deadlines_changed_.notify_all();
  refill_.notify_all();
  runner_up_.notify_all();
  host_changed_.notify_all();
  scope_.cancel();
  co_await runner_.stop();
  co_await egress_.stop();
  co_await scope_.join();
  for (auto& [id, live] : live_) {
    if (live->guest) live->guest->close();
  }
}

std::int64_t SandboxService::steady_ms() const {
  return std::chrono::duration_cast<Millis>(clock_.steady_now().time_since_epoch()).count();
}

// Writes the row as it is now. Jobs run in the order of these calls, so the store sees what memory saw.
Task<Result<void>> SandboxService::save(LivePtr live, Step step) {
  std::optional<model::Intent> intent;
  if (step.intent) intent = model::Intent{*step.intent, clock_.now() + model::bound(live->row.state)};
  model::Event event{0, clock_.now(), live->row.tenant, live->row.id, step.event, step.message, step.data};
  auto job = [row = live->row, intent, event = std::move(event),
              spawn = step.count_spawn](store::Connection& db) -> Result<void> {
    TRY_VOID(store::save_sandbox(db, row, intent));
    if (spawn) TRY_VOID(store::count_spawn(db, row.template_id, event.at));
    if (event.type.empty()) return {};
    TRY_VOID(store::append_event(db, event));
    return {};
  };
  co_return co_await db_.run(std::move(job));
}

Task<Result<void>> SandboxService::move(LivePtr live, model::State to, Step step) {
  CHECK(model::legal(live->row.state, to), "sandbox {}: {} to {}", live->row.id,
        model::state_name(live->row.state), model::state_name(to));
  model::State from = live->row.state;
  set_state(*live, to);
  ++live->version;
  auto saved = co_await save(live, std::move(step));
  // What is not on disk did not happen, unless something else has moved the sandbox on meanwhile.
  if (!saved && live->row.state == to && !live->ending) set_state(*live, from);
  live->changed.notify_all();
  co_return saved;
}

LivePtr SandboxService::find_visible(const std::string& tenant, const std::string& id) const {
  auto found = live_.find(id);
  if (found == live_.end()) return nullptr;
  const LivePtr& live = found->second;
  return live->row.tenant == tenant && live->listed_as && !live->ending ? live : nullptr;
}

Result<LivePtr> SandboxService::find_running(const std::string& tenant, const std::string& id) const {
  LivePtr live = find_visible(tenant, id);
  if (!live) return no_such(id);
  if (live->row.state == model::State::kRunning) return live;
  return not_running(live->row);
}

Result<LivePtr> SandboxService::find_settled(const std::string& tenant, const std::string& id) const {
  LivePtr live = find_visible(tenant, id);
  if (live && live->row.state == model::State::kPaused) return live;
  return find_running(tenant, id);
}

Result<SandboxView> SandboxService::get(const std::string& tenant, const std::string& id) const {
  LivePtr live = find_visible(tenant, id);
  if (!live) return no_such(id);
  return SandboxView(live, &live->row);
}

ListPage SandboxService::list(const ListQuery& query) const {
  ListPage page;
  auto found = listed_.find(query.tenant);
  if (found == listed_.end()) return page;
  const auto& index = found->second.rows;
  page.total_running = found->second.running;
  auto matches = [&](const model::SandboxRow& row) {
    bool running = row.state == model::State::kRunning;
    if (running ? !query.running : !query.paused) return false;
    if (query.started_after && row.started_at < *query.started_after) return false;
    if (query.template_id && row.template_id != *query.template_id) return false;
    return std::all_of(query.metadata.begin(), query.metadata.end(), [&](const auto& pair) {
      auto value = row.metadata.find(pair.first);
      return value != row.metadata.end() && value->second == pair.second;
    });
  };
  auto take = [&](auto begin, auto end) {
    for (auto it = begin; it != end; ++it) {
      if (!matches(it->second->row)) continue;
      if (page.rows.size() == query.limit) {
        const auto& last = *page.rows.back();
        page.next.emplace(last.started_at.ms, last.id);
        return;
      }
      page.rows.push_back(SandboxView(it->second, &it->second->row));
    }
  };
  if (query.order == ListQuery::Order::kOldestFirst) {
    take(query.after ? index.upper_bound(*query.after) : index.begin(), index.end());
  } else {
    auto end = query.after ? index.lower_bound(*query.after) : index.end();
    take(std::make_reverse_iterator(end), index.rend());
  }
  return page;
}

void SandboxService::set_deadline(Live& live, Millis from_now) {
  live.row.deadline = clock_.now() + from_now;
  live.row.deadline_steady_ms = steady_ms() + from_now.count();
}

// What a client does again and again does not fill the journal.
SandboxService::Step SandboxService::timeout_step(Live& live) const {
  Step step;
  auto now = clock_.steady_now();
  if (live.timeout_told && now - *live.timeout_told < kTimeoutEvents) return step;
  live.timeout_told = now;
  step.event = "sandbox.timeout";
  step.message = "timeout set";
  step.data = event_data({{"deadline", format_rfc3339(live.row.deadline)}});
  return step;
}

Task<Result<SandboxView>> SandboxService::set_timeout(std::string tenant, std::string id, Millis timeout,
                                                      Extend extend) {
  CO_TRY(LivePtr live, find_running(tenant, id));
  live->activity->saw_none(Millis(0));
  bool shorter = steady_ms() + timeout.count() <= live->row.deadline_steady_ms;
  if (extend == Extend::kExtendOnly && shorter) co_return SandboxView(live, &live->row);
  auto before = std::make_pair(live->row.deadline, live->row.deadline_steady_ms);
  set_deadline(*live, timeout);
  std::uint64_t version = ++live->version;
  // The timer follows at once, so that a deadline that was just moved away cannot fire in between.
  deadlines_.set(id, live->row.deadline_steady_ms);
  deadlines_changed_.notify_all();
  auto saved = co_await save(live, timeout_step(*live));
  FAULT("timeout.written");
  bool runs = live->row.state == model::State::kRunning && !live->ending;
  if (!saved && live->version == version && runs) {
    std::tie(live->row.deadline, live->row.deadline_steady_ms) = before;
    deadlines_.set(id, live->row.deadline_steady_ms);
    deadlines_changed_.notify_all();
  }
  CO_TRY_VOID(std::move(saved));
  if (live->ending) co_return no_such(id);
  co_return SandboxView(live, &live->row);
}

Task<Result<void>> SandboxService::keep_events(std::vector<model::Event> events) {
  auto job = [events = std::move(events)](store::Connection& db) -> Result<void> {
    for (const model::Event& event : events) TRY_VOID(store::append_event(db, event));
    return success();
  };
  co_return co_await db_.run(std::move(job));
}

// What of the rules is the kernel's to enforce: nothing where the gateway judges all.
model::NetworkRules SandboxService::kernel_rules(const model::NetworkRules& rules) const {
  if (options_.connect_gateway) return {};
  model::NetworkRules out = rules;
  if (out.proxy) {  // nobody here can send it that way
    out.internet = false;
    out.allow.clear();
  }
  return out;
}

Task<Result<void>> SandboxService::enforce(LivePtr live, model::NetworkRules rules) {
  if (!options_.connect_gateway)
    co_return co_await runner_.network(live->row.id, live->row.generation, rules);
  EgressFacts facts = facts_for_gateway(live->row);
  facts.network = std::move(rules);
  auto known = co_await egress_.make_known(std::move(facts));
  if (known) co_return success();
  egress_.changed(facts_for_gateway(live->row));  // it may have heard all the same
  co_return std::move(known).error();
}

Task<Result<void>> SandboxService::set_network(std::string tenant, std::string id,
                                               model::NetworkRules rules) {
  CO_TRY(LivePtr live, find_running(tenant, id));
  // Who enforces them first: if it refuses, the old rules stay in force and on record. A crash in between is
  // put right by the client's repetition, which replaces everything.
  CO_TRY_VOID(co_await enforce(live, rules));
  FAULT("network.applied");
  if (live->ending) co_return no_such(id);
  live->row.network = std::move(rules);
  ++live->version;
  egress_.changed(facts_for_gateway(live->row));  // meanwhile it may have been told the old ones again
  Step step;
  step.event = "sandbox.network";
  step.message = "network rules replaced";
  co_return co_await save(live, std::move(step));
}

Result<std::vector<MetricSample>> SandboxService::metrics(const std::string& tenant,
                                                          const std::string& id) const {
  LivePtr live = find_visible(tenant, id);
  if (!live) return no_such(id);
  return std::vector<MetricSample>(live->metrics.begin(), live->metrics.end());
}

Task<Result<std::vector<model::Event>>> SandboxService::events(store::EventQuery query) {
  auto job = [query = std::move(query)](store::Connection& db) { return store::load_events(db, query); };
  co_return co_await db_.run(std::move(job));
}

Task<Result<SandboxView>> SandboxService::find_any(std::string tenant, std::string id) {
  auto found = live_.find(id);
  if (found != live_.end()) {
    if (found->second->row.tenant != tenant) co_return no_such(id);
    co_return SandboxView(found->second, &found->second->row);
  }
  auto job = [id](store::Connection& db) { return store::load_sandbox(db, id); };
  CO_TRY(auto row, co_await db_.run(std::move(job)));
  if (!row || row->tenant != tenant || tenant.empty()) co_return no_such(id);
  co_return std::make_shared<const model::SandboxRow>(std::move(*row));
}

Task<Result<std::vector<model::SandboxRow>>> SandboxService::ended(std::string tenant, std::size_t limit) {
  auto job = [tenant, limit](store::Connection& db) {
    return store::load_ended_sandboxes(db, tenant, limit);
  };
  co_return co_await db_.run(std::move(job));
}

SandboxService::Status SandboxService::status() const {
  Status status;
  status.runner_connected = runner_.connected();
  status.gateway_connected = egress_.connected();
  if (status.runner_connected) status.runner = runner_.hello();
  status.owner_epoch = epoch_;
  status.reconciled = reconciled_;
  status.capacity = options_.max_sandboxes;
  status.default_tier = host_tier();
  for (const auto& [id, live] : live_) {
    if (live->ending) ++status.ending;
    if (live->row.state == model::State::kRunning && !live->ending) ++status.running;
    if (live->row.state == model::State::kReady && !live->warming && !live->ending) ++status.ready;
    if (live->row.state == model::State::kPaused && !live->ending) ++status.paused;
  }
  return status;
}

bool SandboxService::busy() const {
  if (comparing_ || creating_ > 0 || status().ending > 0) return true;
  auto turns = [](const auto& entry) {
    model::State state = entry.second->row.state;
    return state == model::State::kPausing || state == model::State::kResuming || entry.second->asking;
  };
  return std::any_of(live_.begin(), live_.end(), turns) ||
         std::any_of(pools_.begin(), pools_.end(),
                     [](const auto& pool) { return pool.second.launching + pool.second.warming > 0; });
}

Task<> SandboxService::settle() {
  while (busy()) co_await stopped_.wait();
}

Task<> SandboxService::deadline_loop() {
  co_await async::asio::this_coro::throw_if_cancelled(false);
  while (!stopping_) {
    fire_deadlines();
    auto until = Steady::now() + kMaxTimerWait;
    if (auto next = deadlines_.next()) until = std::min(until, Steady::time_point(Millis(*next)));
    co_await deadlines_changed_.wait_until(until);
  }
}

// In steps, so that nobody waits long for the store.
Task<> SandboxService::prune() {
  WallTime now = clock_.now();
  auto job = [now](store::Connection& db) -> Result<bool> {
    TRY(int events, store::prune_events(db, now - kKeepEvents, kMaxEvents, kPruneStep));
    TRY(int rows, store::prune_sandboxes(db, now - kKeepEnded, kMaxEnded, kPruneStep));
    return std::cmp_greater_equal(std::max(events, rows), kPruneStep);  // there may be more
  };
  Result<bool> more = true;
  while (more && *more && !stopping_) more = co_await db_.run(job);
  if (!more) log::warn("could not prune old rows", {{"what", more.error().message()}});
}

Task<> SandboxService::prune_loop() {
  co_await async::asio::this_coro::throw_if_cancelled(false);
  while (!stopping_) {
    co_await async::sleep_for(std::chrono::minutes(1));
    if (!stopping_) co_await prune();
  }
}

}  // namespace atl::control
