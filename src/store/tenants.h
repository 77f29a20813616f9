// SPDX-License-Identifier: Apache-2.0
//
// Tenants, their keys, and the few facts about the installation itself. Call inside Database::run.
#pragma once

#include <vector>

#include "model/record.h"
#include "store/sqlite.h"

namespace atl::store {

Result<std::vector<model::Tenant>> load_tenants(Connection& db);
Result<void> insert_tenant(Connection& db, const model::Tenant& tenant);  // kExists when the name is taken
Result<void> save_tenant_isolation(Connection& db, const std::string& id, const model::IsolationRule& rule);

Result<std::vector<model::ApiKey>> load_keys(Connection& db);
Result<void> insert_key(Connection& db, const model::ApiKey& key);
Result<void> delete_key(Connection& db, const std::string& id);

// Facts by name, for example "owner_epoch". Empty when never written.
Result<std::string> load_meta(Connection& db, const std::string& key);
Result<void> save_meta(Connection& db, const std::string& key, const std::string& value);
// Adds one to the owner epoch and returns it: every start of control is a new owner.
Result<std::uint64_t> next_owner_epoch(Connection& db);

}  // namespace atl::store
