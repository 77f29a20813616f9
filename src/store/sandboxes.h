// SPDX-License-Identifier: Apache-2.0
//
// Rows of sandboxes and of what was begun with them. Functions of a job: call them inside Database::run.
#pragma once

#include <vector>

#include "model/record.h"
#include "store/sqlite.h"

namespace atl::store {

// Writes the row and replaces its intent. kConflict when a later owner epoch has written the row: this daemon
// no longer owns it and must not act.
Result<void> save_sandbox(Connection& db, const model::SandboxRow& row,
                          const std::optional<model::Intent>& intent);

// When a sandbox last had work, on the monotonic clock.
struct ActivityMark {
  std::string sandbox;
  std::int64_t active_steady_ms = 0;
};
// Writes only that, for all of them at once.
Result<void> save_activity(Connection& db, const std::vector<ActivityMark>& marks, std::uint64_t epoch);

struct StoredSandbox {
  model::SandboxRow row;
  std::optional<model::Intent> intent;
};
// Those that are not terminal, and terminal ones with an intent.
Result<std::vector<StoredSandbox>> load_live_sandboxes(Connection& db);
Result<std::optional<model::SandboxRow>> load_sandbox(Connection& db, const std::string& id);
// Ended sandboxes of a tenant, newest end first.
Result<std::vector<model::SandboxRow>> load_ended_sandboxes(Connection& db, const std::string& tenant,
                                                            std::size_t limit);
// Drops ended rows older than `before`, and the oldest ones beyond `keep`; the number dropped, at most
// `limit`.
Result<int> prune_sandboxes(Connection& db, WallTime before, std::size_t keep, std::size_t limit);

}  // namespace atl::store
