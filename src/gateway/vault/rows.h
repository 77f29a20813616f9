// SPDX-License-Identifier: Apache-2.0
//
// The rows of the vault's database: names and facts in clear, values sealed. Call inside Database::run.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "model/record.h"
#include "store/schema.h"

namespace atl::gateway::vault {

// The numbered schema steps of vault.db.
std::vector<store::Migration> vault_migrations();

// The key that seals all values, itself sealed with the master key. There is one.
struct KeyRow {
  std::string fingerprint;  // of the master key
  std::string sealed;
};
// Empty `sealed` when the vault is new.
Result<KeyRow> load_key(store::Connection& db);
Result<void> save_key(store::Connection& db, const KeyRow& row);

// A secret, without its values.
struct SecretRow {
  std::string id;  // "sec_..."
  std::string tenant;
  std::string name;    // lower case
  std::string config;  // JSON of kinds.h
  std::uint64_t version = 1;
  model::StringMap metadata;
  WallTime created_at;
  WallTime updated_at;
};
struct StoredSecret {
  SecretRow row;
  std::string sealed;  // the value of row.version
};
Result<std::vector<StoredSecret>> load_secrets(store::Connection& db);
Result<void> insert_secret(store::Connection& db, const SecretRow& row, const std::string& sealed);
// A new version; the older values are deleted.
Result<void> update_secret(store::Connection& db, const SecretRow& row, const std::string& sealed);
Result<void> delete_secret(store::Connection& db, const std::string& id);

// What an exchange at an endpoint gave for a secret: sealed, one per secret. Nothing is saved for a version
// that is no longer the newest. Empty when there is none.
Result<void> save_tokens(store::Connection& db, const SecretRow& row, const std::string& sealed);
Result<std::string> load_tokens(store::Connection& db, const std::string& secret);

// A binding (binding.h) as its JSON.
struct BindingRow {
  std::string id;  // "bnd_..."
  std::string tenant;
  std::string secret;
  std::string rule;
};
Result<std::vector<BindingRow>> load_bindings(store::Connection& db);
Result<void> insert_binding(store::Connection& db, const BindingRow& row);
Result<void> delete_binding(store::Connection& db, const std::string& id);

// A service (service.h) as its JSON. One of a tenant and name.
struct ServiceRow {
  std::string tenant;
  std::string name;
  std::string rule;
};
Result<std::vector<ServiceRow>> load_services(store::Connection& db);
Result<void> put_service(store::Connection& db, const ServiceRow& row);  // in place of the former
Result<void> delete_service(store::Connection& db, const std::string& tenant, const std::string& name);

}  // namespace atl::gateway::vault
