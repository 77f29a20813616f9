// SPDX-License-Identifier: Apache-2.0
#include "store/tenants.h"

#include "base/text.h"

namespace atl::store {

Result<std::vector<model::Tenant>> load_tenants(Connection& db) {
  std::vector<model::Tenant> out;
  TRY(Statement rows,
      db.prepare("SELECT id, name, max_sandboxes, created_at FROM tenants ORDER BY created_at, id"));
  while (true) {
    TRY(bool more, rows.step());
    if (!more) return out;
    out.push_back(
        {rows.text(0), rows.text(1), static_cast<std::uint32_t>(rows.integer(2)), {rows.integer(3)}});
  }
}

Result<void> insert_tenant(Connection& db, const model::Tenant& tenant) {
  auto done = db.run("INSERT INTO tenants VALUES (?,?,?,?)", tenant.id, tenant.name, tenant.max_sandboxes,
                     tenant.created_at.ms);
  if (done) return {};
  if (done.error().code() != Code::kExists) return std::move(done).error();
  return make_error(Code::kExists, "a tenant named '{}' exists already", tenant.name);
}

Result<std::vector<model::ApiKey>> load_keys(Connection& db) {
  std::vector<model::ApiKey> out;
  TRY(Statement rows,
      db.prepare(
          "SELECT id, tenant, name, prefix, hash, role, created_at FROM keys ORDER BY created_at, id"));
  while (true) {
    TRY(bool more, rows.step());
    if (!more) return out;
    out.push_back({rows.text(0),
                   rows.text(1),
                   rows.text(2),
                   rows.text(3),
                   rows.text(4),
                   static_cast<model::Role>(rows.integer(5)),
                   {rows.integer(6)}});
  }
}

Result<void> insert_key(Connection& db, const model::ApiKey& key) {
  TRY_VOID(db.run("INSERT INTO keys VALUES (?,?,?,?,?,?,?)", key.id, key.tenant, key.name, key.prefix,
                  Blob{key.hash}, static_cast<int>(key.role), key.created_at.ms));
  return {};
}

Result<void> delete_key(Connection& db, const std::string& id) {
  TRY_VOID(db.run("DELETE FROM keys WHERE id = ?", id));
  return {};
}

Result<std::string> load_meta(Connection& db, const std::string& key) {
  TRY(Statement rows, db.prepare("SELECT value FROM meta WHERE key = ?"));
  rows.bind(key);
  TRY(bool found, rows.step());
  return found ? rows.text(0) : std::string();
}

Result<void> save_meta(Connection& db, const std::string& key, const std::string& value) {
  TRY_VOID(db.run("INSERT OR REPLACE INTO meta VALUES (?,?)", key, value));
  return {};
}

Result<std::uint64_t> next_owner_epoch(Connection& db) {
  TRY(std::string text, load_meta(db, "owner_epoch"));
  std::uint64_t epoch = parse_number<std::uint64_t>(text).value_or(0) + 1;
  TRY_VOID(save_meta(db, "owner_epoch", fmt::format("{}", epoch)));
  return epoch;
}

}  // namespace atl::store
