// SPDX-License-Identifier: Apache-2.0
//
// The rows of approvals.db. On the store's thread.
#pragma once

#include <vector>

#include "gateway/approvals/approval.h"
#include "store/database.h"

namespace atl::gateway {

std::vector<store::Migration> approval_migrations();

// kCorrupt when a row cannot be read.
Result<std::vector<Approval>> load_approvals(store::Connection& db);
Result<void> insert_approval(store::Connection& db, const Approval& approval);
// Writes what has changed of `now`, when its row is still in state `from` and expires as `was_to_expire`
// says: whoever comes first wins. False when somebody was first.
Result<bool> change_approval(store::Connection& db, const Approval& now, ApprovalState from,
                             WallTime was_to_expire);
Result<void> erase_approval(store::Connection& db, const std::string& id);

}  // namespace atl::gateway
