// SPDX-License-Identifier: Apache-2.0
//
// SandboxService: the life of all sandboxes. Each step is: write the intent, act, write the result; memory
// follows the same order, so that what a caller was told is in the store. Everything runs on the control
// loop.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include "async/gate.h"
#include "async/scope.h"
#include "control/catalog.h"
#include "control/deadlines.h"
#include "control/egress_link.h"
#include "control/identity.h"
#include "control/live.h"
#include "control/room.h"
#include "control/runner_client.h"
#include "control/snapshots.h"
#include "store/events.h"

namespace atl::control {

struct ServiceOptions {
  std::uint32_t max_sandboxes = 1000;            // of the host, the pool included
  std::uint32_t max_sandboxes_per_tenant = 500;  // unless the tenant has a limit of its own
  Amounts max_sums;                              // of the limits of all sandboxes; zero: no limit
  MeasureHost measure_host;                      // without it the machine always has room
  std::uint32_t pool_size = 0;                   // kept ready per template that names no size of its own
  std::uint32_t max_ready = 64;                  // kept ready altogether
  Millis max_timeout = std::chrono::hours(24);
  Millis test_patience = std::chrono::seconds(20);  // for a tier that the runner is still testing
  model::HostDefault default_isolation;  // when neither caller nor template nor tenant says anything
  http::Connector connect_gateway;       // to atoll-gateway's feed; without it there is no gateway
  std::string boot_id;                   // of this boot; deadlines are kept on its monotonic clock
  enum class Background : bool { kNo, kYes };
  Background background =
      Background::kYes;  // kNo: a test calls fire_deadlines, sample_metrics and fill_pools itself
};

struct CreateSpec {
  std::string tenant;
  std::string template_ref;
  std::optional<model::IsolationWord> isolation, risk;  // as the caller said them
  Millis timeout{};
  model::StringMap metadata;
  model::StringMap envs;
  bool keep_environment = false;  // the disk that it starts from has it: instead of `envs`
  enum class Secured : bool { kNo, kYes };
  Secured secured = Secured::kYes;
  model::NetworkRules network;
  std::vector<std::string> labels;  // of commands; valid, and each once
  model::Ingress ingress;
  model::Lifecycle lifecycle;
  std::optional<Millis> idle_timeout;  // without it the template's; 0: none
  std::optional<bool> auto_resume;     // without it: when the sandbox may fall asleep
};

using SandboxView = std::shared_ptr<const model::SandboxRow>;

// A snapshot as it is asked for.
struct SnapshotSpec {
  std::string tenant;
  std::string sandbox;
  std::string name;     // "[namespace/]name[:tag]"; empty: none
  bool memory = false;  // with memory and processes, where the tier can
};

// A fork as it is asked for. The children live for `timeout`.
struct ForkSpec {
  std::string tenant;
  std::string sandbox;
  std::size_t count = 1;
  Millis timeout{};
  bool memory = false;
  std::optional<model::IsolationWord> isolation, risk;  // as the caller said them
};
// One entry per child: it, or why there is none.
using Children = std::vector<Result<SandboxView>>;

// What a collection of snapshots has removed.
struct Collected {
  std::size_t copies = 0;  // that no snapshot names
  std::size_t rows = 0;    // of snapshots whose copy is gone
  std::uint64_t bytes = 0;
};

struct ListQuery {
  std::string tenant;
  model::StringMap metadata;  // all pairs must match
  std::optional<WallTime> started_after;
  std::optional<std::string> template_id;
  bool running = true, paused = true;  // which states are wanted
  enum class Order : bool { kNewestFirst, kOldestFirst };
  Order order = Order::kNewestFirst;
  std::size_t limit = 100;
  // Where the page before ended: the start time and id of its last row.
  std::optional<std::pair<std::int64_t, std::string>> after;
};
struct ListPage {
  std::vector<SandboxView> rows;
  std::optional<std::pair<std::int64_t, std::string>> next;
  std::size_t total_running = 0;
};

class SandboxService final : public Directory {
 public:
  static constexpr std::size_t kMaxSamples = 720;  // of metrics per sandbox: an hour

  SandboxService(async::Executor executor, store::Database& db, Clock& clock, Catalog& catalog,
                 Identity& identity, RunnerClient::Connect connect_runner, GuestNetwork guests,
                 ServiceOptions options);
  ~SandboxService() override;

  // Reads the store and takes a new owner epoch. Blocking, once, before start().
  Result<void> load();
  // Connects to the runner and starts the background work; running sandboxes are served from here on.
  void start();
  Task<> stop();

  // Waits for the test of the tier that it needs for up to test_patience; then kUnavailable with the word
  // isolation_being_tested.
  Task<Result<SandboxView>> create(CreateSpec spec);
  // kNotFound unless it runs or is paused, and is `tenant`'s.
  Result<SandboxView> get(const std::string& tenant, const std::string& id) const;
  ListPage list(const ListQuery& query) const;
  // Replaces the deadline, or with kExtendOnly moves it only further away. Zero ends the sandbox now.
  enum class Extend : bool { kReplace, kExtendOnly };
  Task<Result<SandboxView>> set_timeout(std::string tenant, std::string id, Millis timeout, Extend extend);
  // After how long without work it pauses; 0: it does not. `auto_resume` as of CreateSpec.
  Task<Result<SandboxView>> set_idle_timeout(std::string tenant, std::string id, Millis idle_timeout,
                                             std::optional<bool> auto_resume);
  // Why it is awake or asleep. The first is what was last seen, which for processes may be a minute ago; the
  // second asks its guest daemon where that matters.
  Wakefulness wakefulness(const std::string& id) const;
  Task<Result<Wakefulness>> ask_wakefulness(std::string tenant, std::string id);
  // Brings it to rest; kConflict unless it runs. With kLose only its disk is kept.
  enum class Memory : bool { kLose, kKeep };
  Task<Result<void>> pause(std::string tenant, std::string id, Memory memory);
  // Makes it run: wakes it when it is paused, else moves its deadline further away. With kLose one that is
  // paused boots anew from its disk.
  struct Connected {
    SandboxView row;
    bool resumed = false;
  };
  Task<Result<Connected>> connect(std::string tenant, std::string id, Millis timeout, Memory memory);
  // Returns when the kernel has confirmed the end and the row says so.
  Task<Result<void>> kill(std::string tenant, std::string id);
  // Ends every sandbox of every tenant, the ready ones too, and refuses creates from here on: for `atoll
  // down`. Gives how many there were, once all have ended; kDeadline when some have not within a minute.
  Task<Result<std::size_t>> end_all();
  // The same without waiting, for a sandbox whose creator never learnt its id.
  void abandon(const std::string& id);
  // Stores a copy of the disk of a sandbox that runs; it stands still meanwhile and goes on.
  Task<Result<SnapshotView>> snapshot(SnapshotSpec spec);
  // kConflict with the word snapshot_in_use while sandboxes are being started from it.
  Task<Result<void>> delete_snapshot(std::string tenant, std::string reference);
  // New sandboxes on copies of the disk of one that runs. Each succeeds or fails by itself; an error of the
  // whole means that none was tried.
  Task<Result<Children>> fork(ForkSpec spec);
  // Removes copies that no snapshot names, and snapshots whose copy is gone.
  Task<Result<Collected>> collect_snapshots();
  const Snapshots& snapshots() const { return snapshots_; }
  Task<Result<void>> set_network(std::string tenant, std::string id, model::NetworkRules rules);
  // Its commands may have these labels as well; those that it has stay. kUnsupported with the word
  // label_unsupported, kExhausted with the word quota beyond model::kMaxLabels.
  Task<Result<SandboxView>> add_labels(std::string tenant, std::string id, std::vector<std::string> labels);
  Result<std::vector<MetricSample>> metrics(const std::string& tenant, const std::string& id) const;
  Task<Result<std::vector<model::Event>>> events(store::EventQuery query);
  // Of a sandbox that runs or has ended: its row, kNotFound when it is unknown or another tenant's.
  Task<Result<SandboxView>> find_any(std::string tenant, std::string id);
  Task<Result<std::vector<model::SandboxRow>>> ended(std::string tenant, std::size_t limit);

  // Directory.
  RoutePtr find(std::string_view sandbox) const override;
  RoutePtr find_by_signature(std::string_view path, std::string_view operation, std::string_view user,
                             std::string_view expiration, std::string_view signature) const override;
  Task<Result<RoutePtr>> wake(std::string sandbox) override;
  std::shared_ptr<void> on_gone(std::function<void(std::string_view, std::uint64_t)> call) override;

  // What the background tasks do, one step at a time; public for tests that drive the clock.
  void fire_deadlines();
  Task<> watch_work();
  Task<> sample_metrics();
  void fill_pools();
  Task<> prune();
  Task<> settle();  // waits until nothing begun is under way

  struct Status {
    bool runner_connected = false;
    bool gateway_connected = false;  // false, too, where there is none
    wire::HelloReply runner{};       // valid when connected
    std::uint64_t owner_epoch = 0;
    std::size_t running = 0;
    std::size_t paused = 0;
    std::size_t ending = 0;
    std::size_t ready = 0;
    bool reconciled = false;
    std::uint32_t capacity = 0;
    model::Tier default_tier = model::Tier::kContainer;  // for those who say nothing, now
  };
  Status status() const;
  const ServiceOptions& options() const { return options_; }
  const Quota& quota() const { return *quota_; }

 private:
  struct Step;  // what one transition writes; service_impl.h
  std::vector<EgressFacts> all_egress() const;
  EgressFacts facts_for_gateway(const model::SandboxRow& row) const;
  Task<Result<void>> keep_events(std::vector<model::Event> events);
  void tell_gateway(const Live& live, model::State state);
  model::NetworkRules kernel_rules(const model::NetworkRules& rules) const;
  Task<Result<void>> enforce(LivePtr live, model::NetworkRules rules);
  struct PoolKey {
    std::string build;
    model::Tier tier;
    auto operator<=>(const PoolKey&) const = default;
  };
  static PoolKey pool_key(const Live& live) { return {live.row.build, live.row.tier}; }
  struct Pool {
    std::deque<LivePtr> ready;
    std::deque<Steady::time_point> asked;  // recent creates, at most kMaxAsked
    std::size_t launching = 0;
    std::size_t warming = 0;     // of `ready`: their start command is not yet
    std::uint32_t failures = 0;  // in a row; spaces out the next attempt
    Steady::time_point not_before{};
  };
  struct PoolPlan {
    std::string template_id;
    std::size_t size = 0;
  };
  using StartKey = StartKeyOf;
  // What the lists of one tenant show.
  struct Listing {
    std::map<StartKey, LivePtr> rows;  // in order of start
    std::size_t running = 0;           // of them: a page says how many, and need not look at all
  };

  // What a create starts from; keeps a snapshot from going away meanwhile.
  struct Origin {
    Resolved resolved;
    SnapshotUse use;
  };
  struct Forking;  // snapshotting.cc

  // create.cc
  Task<Result<SandboxView>> create_now(CreateSpec spec);
  Task<Result<SandboxView>> create_from(CreateSpec spec, Resolved resolved);
  Task<Result<LivePtr>> claim_ready(const CreateSpec& spec, const Resolved& resolved);
  Amounts held_ready() const;
  Task<Result<Quota::Place>> reserve_place(std::string tenant, Amounts demand);
  Task<Result<LivePtr>> launch_cold(const CreateSpec& spec, const Resolved& resolved);
  Task<Result<void>> hand_over(LivePtr live, const CreateSpec& spec, const Resolved& resolved);
  Task<Result<void>> start_in_runner(LivePtr live, std::string snapshot, bool memory);
  Task<Result<wire::StartReply>> ask_to_start(LivePtr live, wire::StartRequest request);
  void give_to_tenant(Live& live, const CreateSpec& spec, const Resolved& resolved);

  // labelling.cc
  Result<void> require_labels(model::Tier tier, std::size_t count, bool secured) const;
  Task<Result<void>> make_labels(LivePtr live, std::vector<std::string> labels);
  Task<Result<void>> make_labels_again(LivePtr live);
  Task<Result<SandboxView>> add_labels_now(std::string tenant, std::string id,
                                           std::vector<std::string> labels);

  // isolation.cc
  bool usable(model::Tier tier) const;
  Result<void> require_runner() const;
  Result<void> require_tier(model::Tier tier) const;
  bool being_tested(model::Tier tier) const;
  Task<Result<void>> when_tested(std::function<Result<void>()> check);
  model::Tier host_tier() const;
  model::Demand demand_for(const CreateSpec& spec, const model::IsolationRule& of_template) const;
  Result<model::Tier> choose_tier(const model::Demand& demand) const;
  Result<model::Demand> demand_on(const model::Snapshot& row, const CreateSpec& spec) const;
  model::Tier pool_tier(const model::Template& base) const;
  Amounts amounts_for(model::Tier tier, const model::Limits& limits) const;
  void tell_default() const;
  Amounts limit_of(const std::string& tenant) const;

  // snapshotting.cc
  Result<Origin> resolve(const CreateSpec& spec) const;
  Result<Origin> origin_of(const SnapshotPtr& snapshot, const CreateSpec& spec) const;
  Result<void> require_snapshots(const Live& live, bool memory) const;
  Result<model::Snapshot> describe(const Live& live, bool memory) const;
  Result<model::TemplateRef> check_name(const SnapshotSpec& spec) const;
  Task<Result<SnapshotView>> snapshot_now(SnapshotSpec spec);
  void count_snapshot(SnapshotEntry& entry);
  void count_snapshots();
  Task<Result<SnapshotUse>> take_snapshot(LivePtr live, model::Snapshot row, std::string name);
  Task<Result<wire::SnapshotReply>> copy_disk(LivePtr live, model::Snapshot snapshot);
  Task<Result<void>> quiet_down(LivePtr live);
  Task<> speak_again(LivePtr live);
  Task<Result<void>> remove_copy(SnapshotPtr snapshot);
  Task<Result<void>> delete_now(SnapshotUse use);
  Task<Result<Children>> fork_now(ForkSpec spec);
  Task<> fork_child(std::shared_ptr<Forking> forking, std::size_t index);
  Task<Result<Collected>> collect_now();
  Task<Result<void>> mark_missing(Collected& collected);
  Task<> reconcile_snapshots();
  GuestIdentity identity_of(const model::SandboxRow& row) const;

  // trusting.cc
  static void set_trust(GuestIdentity& identity, const EgressAnswer& told);
  Task<> tell_trust();  // to all that run and have not heard of it
  Task<> tell_trust_to(LivePtr live);

  // pausing.cc
  Task<Result<void>> pause_now(std::string tenant, std::string id, Memory memory);
  Task<Result<void>> pause_live(LivePtr live, Memory memory, model::PauseCause cause);
  Task<Result<void>> finish_pause(LivePtr live);
  Task<Result<void>> undo_pause(LivePtr live, Error why);
  Task<> keep_at_rest(LivePtr live);
  Task<> rest_again(LivePtr live);
  void leave_slot(Live& live, std::uint64_t kept_bytes);
  Task<> follow_rest(LivePtr live, bool in_memory);
  Task<> recover_pause(LivePtr live);
  void stay_awake(const LivePtr& live, WallTime deadline);
  static bool ask_again(const Live& live, const Error& error);
  Task<> let_requests_end(LivePtr live);
  bool needs_quiet(const Live& live) const;
  Task<Result<wire::PauseReply>> rest_in_runner(LivePtr live);
  void conclude(LivePtr live, model::State to, Step step);
  Task<> write_conclusion(LivePtr live, Step step);
  Task<Result<void>> write_result(LivePtr live, model::State to, Step step);
  void pause_at_deadline(LivePtr live);

  // idle.cc
  std::vector<LivePtr> idle_candidates() const;
  Task<> read_usage(std::vector<LivePtr> batch);
  void look_at(const LivePtr& live);
  Task<> ask_then_sleep(LivePtr live);
  Task<bool> ask_gateway(LivePtr live);
  Task<bool> ask(LivePtr live);
  Task<> write_activity(std::vector<LivePtr> all);
  static Millis activity_lag(const Live& live);
  void restore_activity(Live& live) const;
  Steady::duration round_length() const;
  Task<> idle_loop();
  static Wakefulness asleep(const model::SandboxRow& row);
  static void set_waking(model::Lifecycle& lifecycle, std::optional<bool> said);

  // resuming.cc
  Task<Result<Connected>> connect_now(std::string tenant, std::string id, Millis timeout, Memory memory);
  Task<Result<void>> resume_live(LivePtr live, Millis timeout, Memory memory);
  Task<Result<void>> take_place(LivePtr live);
  Task<Result<void>> finish_resume(LivePtr live);
  Task<Result<void>> undo_resume(LivePtr live, Error why);
  Task<> recover_resume(LivePtr live);
  Task<Result<void>> wake_in_runner(LivePtr live);
  Task<Result<RoutePtr>> wake_now(std::string id);

  // ending.cc
  void begin_end(LivePtr live, Ending ending);
  Task<> end_task(LivePtr live, Ending ending);
  Task<Result<void>> release_once(LivePtr live);
  Task<> write_end(LivePtr live, Ending ending);
  void handle_exit(const wire::ExitedEvent& event);

  // pool.cc
  Task<> launch_ready(std::string template_id, PoolKey key);
  Task<Result<LivePtr>> launch_for_pool(std::string template_id, PoolKey key);
  void begin_warming(const LivePtr& live);
  Task<> warm_up(LivePtr live);
  void end_warming(Live& live);
  void drain_ready(Pool& pool, std::size_t keep);
  bool offers(model::Tier tier) const;
  std::size_t wanted_ready(const model::Template& base, const PoolKey& key) const;
  std::map<PoolKey, PoolPlan> plan_pools() const;
  void note_asked(const PoolKey& key);
  void note_accepted(const Resolved& resolved);
  void forget_old_asks();
  void leave_pool(const LivePtr& live);
  void ask_for_refill();
  void forget_unused_builds();
  Task<> forget_build(std::string build);
  Task<> refill_loop();

  // reconcile.cc
  // What the rows said when the runner was asked for its list.
  using Asked = std::map<std::string, std::pair<model::State, std::uint64_t>>;  // id: state and generation
  void adopt_loaded(model::SandboxRow row, bool same_boot);
  void adopt_place(Live& live);
  void keep_on_disk(Live& live, std::uint64_t bytes);
  void take_whole_place(Live& live);
  void adopt_running(const LivePtr& live);
  Task<> reconcile();
  Task<> stop_orphan(LivePtr orphan);
  bool agrees(const LivePtr& live, const wire::ListReply& item);
  void reconcile_listed(const std::vector<wire::ListReply>& listed, const Asked& asked);
  static bool stood_still(const Live& live, const Asked& asked);

  // sandbox_service.cc
  Task<Result<void>> move(LivePtr live, model::State to, Step step);
  Task<Result<void>> save(LivePtr live, Step step);
  LivePtr find_visible(const std::string& tenant, const std::string& id) const;
  Result<LivePtr> find_running(const std::string& tenant, const std::string& id) const;
  Result<LivePtr> find_settled(const std::string& tenant, const std::string& id) const;  // running or paused
  wire::StartRequest start_request(const Live& live) const;
  void take_start_reply(Live& live, const wire::StartReply& reply);
  void publish(const LivePtr& live);     // reachable, listed, with a deadline
  void show_state(const LivePtr& live);  // listed, and known to ingress in the state that it has
  void set_state(Live& live, model::State to);
  void take_off_list(Live& live);
  void close_door(const LivePtr& live);  // later requests are not let in; those under way go on
  void break_off(const LivePtr& live);   // the connections into it
  void unpublish(const LivePtr& live);   // the opposite; connections into it are broken off
  void set_deadline(Live& live, Millis from_now);
  std::int64_t steady_ms() const;
  bool busy() const;
  Task<> deadline_loop();
  Task<> metrics_loop();
  Step timeout_step(Live& live) const;
  Task<> prune_loop();
  Task<> sample_one(LivePtr live);

  async::Executor executor_;
  store::Database& db_;
  Clock& clock_;
  Catalog& catalog_;
  Identity& identity_;
  ServiceOptions options_;
  GuestNetwork guests_;
  RunnerClient runner_;
  EgressLink egress_;
  bool telling_trust_ = false;
  async::Scope scope_;
  async::Event deadlines_changed_;
  async::Event refill_;
  async::Event runner_up_;
  async::Event host_changed_;  // the runner knows more of its tiers
  async::Event stopped_;
  async::Gate starts_;  // requests to the runner at a time; the rest waits here, not in its queue
  async::Gate stops_;
  async::Gate asks_;    // of guest daemons, which may be slow
  async::Gate copies_;  // of disks, which keep a worker of the runner busy for long

  std::uint64_t epoch_ = 0;
  Snapshots snapshots_;
  std::shared_ptr<Quota> quota_;
  Room room_;
  std::unordered_map<std::string, LivePtr> live_;    // all that are not over, bounded by the host's limit
  std::unordered_map<std::string, Listing> listed_;  // by tenant
  std::map<PoolKey, Pool> pools_;
  std::set<std::string> used_builds_;  // that the runner may hold open
  Deadlines deadlines_;
  std::map<std::uint64_t, std::function<void(std::string_view, std::uint64_t)>> gone_;
  std::uint64_t next_gone_ = 1;
  Steady::time_point last_create_{};
  std::size_t creating_ = 0;
  bool stopping_ = false;
  bool closed_ = false;  // end_all() was called
  bool reconciled_ = false;
  bool comparing_ = false;  // reconcile_snapshots() runs
};

}  // namespace atl::control
