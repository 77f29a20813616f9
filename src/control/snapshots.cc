// SPDX-License-Identifier: Apache-2.0
#include "control/snapshots.h"

#include <algorithm>

#include "store/events.h"
#include "store/snapshots.h"

namespace atl::control {
namespace {

bool named_by(const model::Snapshot& row, const model::TemplateRef& ref, bool any_tag) {
  if (ref.name_space.empty() && row.id == ref.alias) return any_tag || ref.tag == model::kDefaultTag;
  bool same_space = ref.name_space.empty() || ref.name_space == row.name_space;
  return !row.name.empty() && row.name == ref.alias && same_space && (any_tag || row.tag == ref.tag);
}

}  // namespace

std::string snapshot_reference(const model::Snapshot& row) {
  if (row.name.empty()) return row.id + ":" + model::kDefaultTag;
  std::string space = row.name_space.empty() ? std::string() : row.name_space + "/";
  return space + row.name + ":" + row.tag;
}

Result<void> Snapshots::load() {
  TRY(auto rows, db_.run_blocking([](store::Connection& db) { return store::load_snapshots(db); }));
  for (auto& row : rows) {
    auto entry = std::make_shared<SnapshotEntry>();
    entry->row = std::move(row);
    entries_.emplace(entry->row.id, std::move(entry));
  }
  return {};
}

SnapshotPtr Snapshots::find(const std::string& tenant, std::string_view reference) const {
  auto ref = model::parse_template_ref(reference);
  if (!ref) return nullptr;
  for (const auto& [id, entry] : entries_) {
    const model::Snapshot& row = entry->row;
    bool usable = row.tenant == tenant && row.state == model::SnapshotState::kReady && !row.is_fork;
    if (usable && named_by(row, *ref, false)) return entry;
  }
  return nullptr;
}

SnapshotPtr Snapshots::find_id(const std::string& id) const {
  auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second;
}

std::vector<SnapshotView> Snapshots::list(const SnapshotQuery& query) const {
  std::vector<SnapshotView> out;
  auto ref = model::parse_template_ref(query.name);
  if (!query.name.empty() && !ref) return out;
  bool any_tag = query.name.find(':') == std::string::npos;
  for (const auto& [id, entry] : entries_) {
    const model::Snapshot& row = entry->row;
    if (row.tenant != query.tenant || row.state != model::SnapshotState::kReady || row.is_fork) continue;
    if (!query.sandbox.empty() && row.sandbox != query.sandbox) continue;
    if (!query.name.empty() && !named_by(row, *ref, any_tag)) continue;
    out.push_back(entry);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::tie(b->row.created_at, b->row.id) < std::tie(a->row.created_at, a->row.id);
  });
  return out;
}

std::vector<SnapshotPtr> Snapshots::in_state(model::SnapshotState state) const {
  std::vector<SnapshotPtr> out;
  for (const auto& [id, entry] : entries_) {
    if (entry->row.state == state) out.push_back(entry);
  }
  return out;
}

bool Snapshots::uses_build(const std::string& build) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const auto& item) { return item.second->row.build.id == build; });
}

Task<Result<SnapshotUse>> Snapshots::begin(model::Snapshot row) {
  auto held = std::count_if(entries_.begin(), entries_.end(),
                            [&](const auto& item) { return item.second->row.tenant == row.tenant; });
  if (static_cast<std::size_t>(held) >= kMaxPerTenant) {
    co_return make_error(Code::kExhausted, "there are {} snapshots already", held)
        .with_word("quota")
        .with_hint("delete some: atoll snapshot list, atoll snapshot rm");
  }
  row.id = model::new_snapshot_id();
  row.state = model::SnapshotState::kCreating;
  row.created_at = clock_.now();
  auto entry = std::make_shared<SnapshotEntry>();
  entry->row = row;
  SnapshotUse use(entry);
  entries_.emplace(row.id, entry);
  auto job = [row](store::Connection& db) { return store::insert_snapshot(db, row); };
  auto saved = co_await db_.run(std::move(job));
  if (saved) co_return use;
  entries_.erase(row.id);
  co_return std::move(saved).error();
}

// What happens to a snapshot is told in the journal of the sandbox that it was made of.
Task<Result<void>> Snapshots::write(model::Snapshot row, std::string event, std::string message) {
  auto job = [row, at = clock_.now(), event = std::move(event),
              message = std::move(message)](store::Connection& db) -> Result<void> {
    TRY_VOID(store::update_snapshot(db, row));
    if (row.is_fork || event.empty()) return {};
    model::Event entry{0, at, row.tenant, row.sandbox, event, message, "{\"snapshot\":\"" + row.id + "\"}"};
    TRY_VOID(store::append_event(db, entry));
    return {};
  };
  co_return co_await db_.run(std::move(job));
}

Task<Result<void>> Snapshots::complete(SnapshotPtr entry, std::uint64_t stored_bytes, std::string name) {
  model::Snapshot row = entry->row;
  row.state = model::SnapshotState::kReady;
  row.stored_bytes = stored_bytes;
  row.name = std::move(name);
  CO_TRY_VOID(co_await write(row, "snapshot.created", "snapshot taken"));
  for (const auto& [id, other] : entries_) {
    bool named = !row.name.empty() && other->row.name == row.name && other->row.tag == row.tag;
    if (named && other->row.tenant == row.tenant) other->row.name.clear();
  }
  entry->row = row;
  co_return success();
}

Task<Result<void>> Snapshots::begin_removal(SnapshotPtr entry) {
  if (entry->row.state == model::SnapshotState::kDeleting) co_return success();
  model::Snapshot before = entry->row;
  entry->row.state = model::SnapshotState::kDeleting;
  entry->row.name.clear();
  std::string event;  // nobody heard of one that was never whole
  if (before.state == model::SnapshotState::kReady) event = "snapshot.deleted";
  auto saved = co_await write(entry->row, event, "snapshot deleted");
  if (!saved) entry->row = before;
  co_return saved;
}

Task<Result<void>> Snapshots::forget(SnapshotPtr entry) {
  std::string id = entry->row.id;
  auto job = [id](store::Connection& db) { return store::delete_snapshot(db, id); };
  CO_TRY_VOID(co_await db_.run(std::move(job)));
  entry->disk.release();  // views may hold the entry for longer
  entries_.erase(id);
  co_return success();
}

}  // namespace atl::control
