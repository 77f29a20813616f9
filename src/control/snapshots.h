// SPDX-License-Identifier: Apache-2.0
//
// Snapshots: the rows of stored disks, in memory and in the store, with their names and with who uses each
// right now. The copies themselves are the runner's; SandboxService has them made and removed. Use from the
// control loop.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "control/quota.h"
#include "model/record.h"
#include "store/database.h"

namespace atl::control {

using async::Task;

// One snapshot as control holds it.
struct SnapshotEntry {
  model::Snapshot row;
  std::size_t uses = 0;  // starts that read it, or the call that makes or removes it
  bool missing = false;  // ready, but the runner does not have it any more
  Quota::Place disk;  // what the copy takes, and before it is whole what it may take; none where it is gone
};
// Shared: a view stays true while it is read.
using SnapshotPtr = std::shared_ptr<SnapshotEntry>;
using SnapshotView = std::shared_ptr<const SnapshotEntry>;

// Keeps a snapshot from being removed. Move-only.
class SnapshotUse {
 public:
  SnapshotUse() = default;
  explicit SnapshotUse(SnapshotPtr entry) : entry_(std::move(entry)) { ++entry_->uses; }
  SnapshotUse(SnapshotUse&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  SnapshotUse& operator=(SnapshotUse&& other) noexcept {
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~SnapshotUse() {
    if (entry_) --entry_->uses;
  }
  const SnapshotPtr& entry() const { return entry_; }

 private:
  SnapshotPtr entry_;
};

// Which snapshots a list shows.
struct SnapshotQuery {
  std::string tenant;
  std::string sandbox;  // empty: of any
  std::string name;     // name or id, with or without a tag; empty: any
};

// The rows and who uses them.
class Snapshots {
 public:
  static constexpr std::size_t kMaxPerTenant = 1000;

  Snapshots(store::Database& db, Clock& clock) : db_(db), clock_(clock) {}
  Result<void> load();  // blocking, once at start

  // A ready one by `id`, `id:default` or its name; nullptr when `tenant` has none.
  SnapshotPtr find(const std::string& tenant, std::string_view reference) const;
  SnapshotPtr find_id(const std::string& id) const;
  // Ready ones that nobody made for a fork, newest first.
  std::vector<SnapshotView> list(const SnapshotQuery& query) const;
  // All rows in these states.
  std::vector<SnapshotPtr> in_state(model::SnapshotState state) const;
  bool uses_build(const std::string& build) const;

  // Writes the row; its copy may be made from here on. kExhausted when the tenant has too many.
  Task<Result<SnapshotUse>> begin(model::Snapshot row);
  // The copy is whole: the snapshot can be used, and takes its name.
  Task<Result<void>> complete(SnapshotPtr entry, std::uint64_t stored_bytes, std::string name);
  // Nobody can use it any more; its copy may be removed from here on.
  Task<Result<void>> begin_removal(SnapshotPtr entry);
  // The copy is gone.
  Task<Result<void>> forget(SnapshotPtr entry);

 private:
  Task<Result<void>> write(model::Snapshot row, std::string event, std::string message);
  store::Database& db_;
  Clock& clock_;
  std::map<std::string, SnapshotPtr> entries_;
};

// "name:tag" with its namespace, or "id:default": what clients use to name it.
std::string snapshot_reference(const model::Snapshot& row);

}  // namespace atl::control
