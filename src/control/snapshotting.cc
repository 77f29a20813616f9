// SPDX-License-Identifier: Apache-2.0
//
// Snapshots and forks. The row comes before the copy and goes after it, so that what a crash leaves has a row
// that says what to do with it: `creating` and `deleting` are removed, `ready` is whole.
#include <set>

#include "async/detach.h"
#include "control/service_impl.h"

namespace atl::control {
namespace {

constexpr std::size_t kMaxChildren = 100;

// What a copy may take that is not whole yet: no more than its sandbox may have.
std::uint64_t most_stored(const model::Snapshot& row) {
  const model::Limits& limits = row.build.limits;
  return limits.disk_bytes + (row.memory ? limits.memory_bytes : 0);
}

Error no_such_snapshot(const std::string& reference) {
  return make_error(Code::kNotFound, "snapshot '{}' not found", reference)
      .with_word("snapshot_not_found")
      .with_hint("'atoll snapshot list' shows what there is");
}

}  // namespace

// A tenant's own snapshot comes before a template of the same name: what somebody else publishes later does
// not change what a tenant's name means.
Result<SandboxService::Origin> SandboxService::resolve(const CreateSpec& spec) const {
  if (SnapshotPtr found = snapshots_.find(spec.tenant, spec.template_ref)) return origin_of(found, spec);
  TRY(Resolved resolved, catalog_.resolve(spec.tenant, spec.template_ref));
  resolved.demand = demand_for(spec, resolved.base.isolation);
  TRY(resolved.tier, choose_tier(resolved.demand));
  return Origin{std::move(resolved), SnapshotUse()};
}

Result<SandboxService::Origin> SandboxService::origin_of(const SnapshotPtr& snapshot,
                                                         const CreateSpec& spec) const {
  const model::Snapshot& row = snapshot->row;
  if (snapshot->missing) {
    return make_error(Code::kConflict, "the copy of snapshot '{}' is gone from this host", spec.template_ref)
        .with_word("snapshot_missing")
        .with_hint("put the data directory back, or remove the snapshot: atoll snapshot gc");
  }
  TRY(model::Demand demand, demand_on(row, spec));
  Origin origin{Resolved(), SnapshotUse(snapshot)};
  origin.resolved.base.id = row.id;
  origin.resolved.base.alias = row.name.empty() ? row.id : row.name;
  origin.resolved.build = row.build;
  origin.resolved.snapshot = row.id;
  if (row.memory) origin.resolved.memory_token = row.internal_token;
  origin.resolved.demand = demand;
  origin.resolved.tier = row.tier;
  return origin;
}

Result<void> SandboxService::require_snapshots(const Live& live, bool memory) const {
  TRY_VOID(require_tier(live.row.tier));
  unsigned bit = 1u << static_cast<unsigned>(live.row.tier);
  bool disk = (runner_.hello().disk_snapshot_tiers & bit) != 0;
  if (disk && !memory) return {};
  if (memory && (runner_.hello().memory_tiers & bit) != 0) {
    if (live.row.state != model::State::kPaused || live.row.rests_in_memory) return {};
    return make_error(Code::kConflict, "sandbox '{}' was paused without its memory", live.row.id)
        .with_word("memory_gone")
        .with_hint("leave memory out for a copy of the disk");
  }
  return make_error(Code::kUnsupported, "isolation '{}' has no capability {}",
                    model::tier_name(live.row.tier), memory ? "memory_snapshot" : "disk_snapshot")
      .with_word("capability_unsupported")
      .with_hint("leave memory out for a copy of the disk, or ask for a tier that can store memory");
}

Result<model::Snapshot> SandboxService::describe(const Live& live, bool memory) const {
  model::Snapshot row;
  row.memory = memory;
  if (memory) row.internal_token = live.row.internal_token;
  row.tenant = live.row.tenant;
  row.sandbox = live.row.id;
  row.tier = live.row.tier;
  row.alias = live.row.alias;
  const model::Build* build = catalog_.build(live.row.build);
  for (auto state : {model::SnapshotState::kReady, model::SnapshotState::kDeleting}) {
    for (const auto& other : snapshots_.in_state(state)) {
      if (!build && other->row.build.id == live.row.build) build = &other->row.build;
    }
  }
  if (!build) {
    return make_error(Code::kConflict, "the template of sandbox '{}' was removed", live.row.id)
        .with_word("template_gone")
        .with_hint("a snapshot needs the user, the directory and the environment that the template names");
  }
  row.build = *build;
  row.build.limits = live.row.limits;
  return row;
}

Result<model::TemplateRef> SandboxService::check_name(const SnapshotSpec& spec) const {
  model::TemplateRef ref;
  if (spec.name.empty()) return ref;
  TRY(ref, model::parse_template_ref(spec.name));
  if (catalog_.find(spec.tenant, ref.alias) == nullptr) return ref;
  return make_error(Code::kExists, "a template is named '{}' already", ref.alias)
      .with_word("name_taken")
      .with_hint("choose another name for the snapshot");
}

Task<Result<SnapshotView>> SandboxService::snapshot(SnapshotSpec spec) {
  if (stopping_ || closed_)
    co_return make_error(Code::kUnavailable, "shutting down").with_word("runner_unavailable");
  co_return co_await async::finish_in(scope_, "snapshot", snapshot_now(std::move(spec)));
}

Task<Result<SnapshotView>> SandboxService::snapshot_now(SnapshotSpec spec) {
  CO_TRY(LivePtr live, find_settled(spec.tenant, spec.sandbox));
  CO_TRY_VOID(require_snapshots(*live, spec.memory));
  CO_TRY(model::TemplateRef ref, check_name(spec));
  CO_TRY(model::Snapshot row, describe(*live, spec.memory));
  row.name_space = ref.name_space;
  row.tag = ref.tag;
  CO_TRY(SnapshotUse use, co_await take_snapshot(live, std::move(row), ref.alias));
  co_return SnapshotView(use.entry());
}

// Row, copy, row. On failure nothing of it is left, or a row that the next reconcile removes with its copy.
Task<Result<SnapshotUse>> SandboxService::take_snapshot(LivePtr live, model::Snapshot row, std::string name) {
  CO_TRY(Quota::Place place, quota_->reserve(row.tenant, on_disk(most_stored(row)), limit_of(row.tenant)));
  CO_TRY(SnapshotUse use, co_await snapshots_.begin(std::move(row)));
  use.entry()->disk = std::move(place);
  FAULT("snapshot.row_written");
  auto copied = co_await copy_disk(live, use.entry()->row);
  FAULT("snapshot.copied");
  Result<void> done = success();
  if (copied) {
    done = co_await snapshots_.complete(use.entry(), copied->stored_bytes, std::move(name));
    if (done) count_snapshot(*use.entry());
  } else {
    done = std::move(copied).error();
  }
  FAULT("snapshot.completed");
  if (done) {
    log::info("snapshot taken", {{"id", use.entry()->row.id},
                                 {"sandbox", live->row.id},
                                 {"bytes", copied->stored_bytes},
                                 {"still_us", copied->still_us},
                                 {"total_us", copied->total_us}});
    co_return use;
  }
  auto undone = co_await remove_copy(use.entry());
  if (!undone) log::warn("a failed snapshot is left to the next reconcile", {{"id", use.entry()->row.id}});
  co_return std::move(done).error();
}

// Ends what leads into the sandbox, and finds out whether it has connections of its own, which a copy of its
// memory would break.
Task<Result<void>> SandboxService::quiet_down(LivePtr live) {
  live->held = true;
  show_state(live);
  FreezeOrder order;
  order.outside = true;
  auto outside = co_await live->guest->freeze(order);
  break_off(live);  // after the word with which streams end
  live->guest->close();
  if (!outside) co_return std::move(outside).error();
  if (*outside == 0) co_return success();
  co_return make_error(Code::kConflict, "{} connections of sandbox '{}' lead to the outside", *outside,
                       live->row.id)
      .with_word("outside_connections")
      .with_hint("try again when they are closed, or leave memory out for a copy of the disk");
}

// The clocks of requests go on, and who waited may connect.
Task<> SandboxService::speak_again(LivePtr live) {
  Result<void> told = success();
  if (!live->ending) told = co_await live->guest->init(identity_of(live->row));
  if (!told)
    log::warn("a sandbox was not told that it goes on",
              {{"id", live->row.id}, {"what", told.error().message()}});
  live->held = false;
  if (!live->ending) show_state(live);
}

// One copy of a sandbox at a time; the others wait.
Task<Result<wire::SnapshotReply>> SandboxService::copy_disk(LivePtr live, model::Snapshot snapshot) {
  while (live->copying && !live->ending) co_await live->changed.wait();
  if (live->ending) {
    co_return make_error(Code::kNotFound, "sandbox '{}' ended before its disk was copied", live->row.id)
        .with_word("sandbox_not_found");
  }
  struct Copying {
    explicit Copying(Live& l) : live(l) { live.copying = true; }
    ~Copying() {
      live.copying = false;
      live.activity->saw_none(Millis(0));
      live.changed.notify_all();
    }
    Live& live;
  } copying(*live);
  auto pass = co_await copies_.enter(live->row.tenant);
  bool quiet = snapshot.memory && needs_quiet(*live) && live->row.state == model::State::kRunning;
  Result<void> ready = success();
  if (quiet) ready = co_await quiet_down(live);
  Result<wire::SnapshotReply> copied = make_error(Code::kInternal, "");
  if (ready) {
    // Whatever its generation there: a resume that was refused has left it at the one before.
    copied = co_await runner_.snapshot(live->row.id, 0, std::move(snapshot.id), snapshot.memory);
  } else {
    copied = std::move(ready).error();
  }
  if (quiet) co_await speak_again(live);
  if (!copied && copied.error().code() == Code::kNotFound && live->ending) {
    co_return make_error(Code::kNotFound, "sandbox '{}' ended while its disk was copied", live->row.id)
        .with_word("sandbox_not_found");
  }
  co_return copied;
}

void SandboxService::count_snapshot(SnapshotEntry& entry) {
  bool whole = entry.row.state != model::SnapshotState::kCreating && entry.row.stored_bytes > 0;
  std::uint64_t bytes = whole ? entry.row.stored_bytes : most_stored(entry.row);
  entry.disk.release();
  entry.disk = quota_->adopt(entry.row.tenant, on_disk(bytes));
}

void SandboxService::count_snapshots() {
  for (auto state :
       {model::SnapshotState::kCreating, model::SnapshotState::kReady, model::SnapshotState::kDeleting}) {
    for (const SnapshotPtr& entry : snapshots_.in_state(state)) count_snapshot(*entry);
  }
}

// The copy first, then the row: a row without a copy is repaired, a copy without a row is a leak.
Task<Result<void>> SandboxService::remove_copy(SnapshotPtr snapshot) {
  CO_TRY_VOID(co_await runner_.drop_snapshot(snapshot->row.id));
  FAULT("snapshot.dropped");
  co_return co_await snapshots_.forget(snapshot);
}

Task<Result<void>> SandboxService::delete_snapshot(std::string tenant, std::string reference) {
  SnapshotPtr found = snapshots_.find(tenant, reference);
  if (!found) co_return no_such_snapshot(reference);
  if (found->uses > 0) {
    co_return make_error(Code::kConflict, "snapshot '{}' is in use: {} sandboxes are being started from it",
                         reference, found->uses)
        .with_word("snapshot_in_use")
        .with_hint("try again when they run");
  }
  co_return co_await async::finish_in(scope_, "delete snapshot", delete_now(SnapshotUse(found)));
}

Task<Result<void>> SandboxService::delete_now(SnapshotUse use) {
  CO_TRY_VOID(co_await snapshots_.begin_removal(use.entry()));
  FAULT("snapshot.removal_written");
  auto removed = co_await remove_copy(use.entry());
  if (removed) co_return success();
  co_return std::move(removed).error().with_hint(
      "the removal is on record and will be carried out; the snapshot cannot be used any more");
}

// --- Fork -------------------------------------------------------------------------------------------------

struct SandboxService::Forking {
  Forking(async::Executor executor, std::size_t count)
      : done(std::move(executor)), left(count), children(count) {}
  CreateSpec spec;
  Resolved resolved;
  async::Event done;
  std::size_t left;
  std::vector<std::optional<Result<SandboxView>>> children;
};

Task<Result<Children>> SandboxService::fork(ForkSpec spec) {
  if (stopping_ || closed_)
    co_return make_error(Code::kUnavailable, "shutting down").with_word("runner_unavailable");
  co_return co_await async::finish_in(scope_, "fork", fork_now(std::move(spec)));
}

// The children differ from their parent in all that names or opens a sandbox; what they share is what the
// disk holds, its environment among it, and what the parent was told to be.
Task<Result<Children>> SandboxService::fork_now(ForkSpec spec) {
  if (spec.count < 1 || spec.count > kMaxChildren)
    co_return make_error(Code::kInvalid, "count: must be 1 to {}", kMaxChildren).with_word("invalid_field");
  CO_TRY(LivePtr live, find_settled(spec.tenant, spec.sandbox));
  CO_TRY_VOID(require_snapshots(*live, spec.memory));
  CO_TRY(model::Snapshot row, describe(*live, spec.memory));
  row.is_fork = true;
  auto forking = std::make_shared<Forking>(executor_, spec.count);
  forking->spec.tenant = spec.tenant;
  forking->spec.isolation = spec.isolation;
  forking->spec.risk = spec.risk;
  CO_TRY_VOID(demand_on(row, forking->spec));
  forking->spec.timeout = spec.timeout;
  forking->spec.metadata = live->row.metadata;
  forking->spec.network = live->row.network;
  forking->spec.labels = live->row.labels;
  forking->spec.ingress = live->row.ingress;
  forking->spec.idle_timeout = live->row.lifecycle.idle_timeout;
  forking->spec.lifecycle.keep_memory = live->row.lifecycle.keep_memory;
  forking->spec.auto_resume = live->row.lifecycle.auto_resume;
  if (live->row.access_token.empty()) forking->spec.secured = CreateSpec::Secured::kNo;
  forking->resolved.base.id = live->row.template_id;
  forking->resolved.base.alias = live->row.alias;
  forking->resolved.build = row.build;
  forking->resolved.demand = live->row.asked;
  forking->resolved.tier = live->row.tier;
  forking->spec.keep_environment = true;
  CO_TRY(SnapshotUse use, co_await take_snapshot(live, std::move(row), std::string()));
  forking->resolved.snapshot = use.entry()->row.id;
  if (spec.memory) forking->resolved.memory_token = use.entry()->row.internal_token;
  for (std::size_t i = 0; i < spec.count; ++i) scope_.spawn("fork child", fork_child(forking, i));
  while (forking->left > 0 && !stopping_) co_await forking->done.wait();
  FAULT("fork.children_made");
  auto removed = co_await delete_now(std::move(use));
  if (!removed)
    log::warn("the copy of a fork is left to the next reconcile", {{"what", removed.error().message()}});
  Children out;
  for (auto& child : forking->children) {
    if (!child)
      child.emplace(make_error(Code::kUnavailable, "shutting down").with_word("runner_unavailable"));
    out.push_back(std::move(*child));
  }
  co_return out;
}

Task<> SandboxService::fork_child(std::shared_ptr<Forking> forking, std::size_t index) {
  auto made = co_await create_from(forking->spec, forking->resolved);
  FAULT("fork.child_made");
  forking->children[index].emplace(std::move(made));
  --forking->left;
  forking->done.notify_all();
}

// --- What crashes leave
// -------------------------------------------------------------------------------------

Task<Result<Collected>> SandboxService::collect_snapshots() {
  co_return co_await async::finish_in(scope_, "collect snapshots", collect_now());
}

Task<Result<Collected>> SandboxService::collect_now() {
  Collected collected;
  CO_TRY_VOID(co_await mark_missing(collected));
  for (const SnapshotPtr& entry : snapshots_.in_state(model::SnapshotState::kReady)) {
    if (!entry->missing || entry->uses > 0) continue;
    CO_TRY_VOID(co_await delete_now(SnapshotUse(entry)));
    ++collected.rows;
  }
  co_return collected;
}

// Compares the rows with what the runner holds.
Task<Result<void>> SandboxService::mark_missing(Collected& collected) {
  // Only what was whole before the list was asked for must be in it.
  std::set<std::string> expected;
  for (const SnapshotPtr& entry : snapshots_.in_state(model::SnapshotState::kReady))
    expected.insert(entry->row.id);
  CO_TRY(auto listed, co_await runner_.list_snapshots());
  FAULT("reconcile.snapshots_listed");
  for (const auto& item : listed) {
    std::string id = item.snapshot.str();
    expected.erase(id);
    if (SnapshotPtr known = snapshots_.find_id(id)) {
      if (std::exchange(known->missing, false)) count_snapshot(*known);
      continue;
    }
    CO_TRY_VOID(co_await runner_.drop_snapshot(id));
    log::warn("removed the copy of a snapshot that no row knows", {{"id", id}});
    ++collected.copies;
    collected.bytes += item.stored_bytes;
  }
  for (const std::string& id : expected) {
    SnapshotPtr entry = snapshots_.find_id(id);
    if (!entry || entry->row.state != model::SnapshotState::kReady) continue;
    entry->missing = true;
    entry->disk.release();
    log::error("the copy of a snapshot is gone", {{"id", id}});
  }
  co_return success();
}

// What an earlier control, or a call whose runner went away, has begun and not ended. A fork that was under
// way is over: nobody waits for its children.
Task<> SandboxService::reconcile_snapshots() {
  Collected collected;
  auto marked = co_await mark_missing(collected);
  if (!marked) log::warn("could not compare the snapshots", {{"what", marked.error().message()}});
  std::vector<SnapshotPtr> over = snapshots_.in_state(model::SnapshotState::kCreating);
  for (const auto& entry : snapshots_.in_state(model::SnapshotState::kDeleting)) over.push_back(entry);
  for (const auto& entry : snapshots_.in_state(model::SnapshotState::kReady)) {
    if (entry->row.is_fork) over.push_back(entry);
  }
  for (const SnapshotPtr& entry : over) {
    if (entry->uses > 0) continue;
    auto removed = co_await delete_now(SnapshotUse(entry));
    if (!removed)
      log::warn("could not remove what is left of a snapshot",
                {{"id", entry->row.id}, {"what", removed.error().message()}});
  }
  comparing_ = false;
  stopped_.notify_all();
}

}  // namespace atl::control
