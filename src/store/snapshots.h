// SPDX-License-Identifier: Apache-2.0
//
// Rows of snapshots. Call inside Database::run.
#pragma once

#include <vector>

#include "model/record.h"
#include "store/sqlite.h"

namespace atl::store {

Result<std::vector<model::Snapshot>> load_snapshots(Connection& db);  // oldest first
Result<void> insert_snapshot(Connection& db, const model::Snapshot& row);
// State, size and name. The name is taken away from the snapshot that has it.
Result<void> update_snapshot(Connection& db, const model::Snapshot& row);
Result<void> delete_snapshot(Connection& db, const std::string& id);

}  // namespace atl::store
