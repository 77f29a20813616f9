// SPDX-License-Identifier: Apache-2.0
#include "store/tenants.h"

#include "base/text.h"
#include "base/units.h"
#include "store/codec.h"

namespace atl::store {

Result<std::vector<model::Tenant>> load_tenants(Connection& db) {
  std::vector<model::Tenant> out;
  TRY(Statement rows,
      db.prepare("SELECT id, name, created_at, max_sandboxes, max_memory_mib, max_cpu_millis, max_processes,"
                 " max_disk_mib, isolation, min_isolation FROM tenants ORDER BY created_at, id"));
  while (true) {
    TRY(bool more, rows.step());
    if (!more) return out;
    auto amount = [&rows](int column) { return static_cast<std::uint64_t>(rows.integer(column)); };
    model::Amounts limit{static_cast<std::uint32_t>(amount(3)), amount(4) * kMiB, amount(5), amount(6),
                         amount(7) * kMiB};
    model::Tenant tenant{rows.text(0), rows.text(1), limit, {rows.integer(2)}, {}};
    TRY(tenant.isolation.standard, decode_isolation(rows.text(8)));
    TRY(tenant.isolation.minimum, decode_isolation(rows.text(9)));
    out.push_back(std::move(tenant));
  }
}

Result<void> insert_tenant(Connection& db, const model::Tenant& tenant) {
  auto number = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  auto done = db.run(
      "INSERT INTO tenants (id, name, created_at, max_sandboxes, max_memory_mib, max_cpu_millis,"
      " max_processes, max_disk_mib, isolation, min_isolation) VALUES (?,?,?,?,?,?,?,?,?,?)",
      tenant.id, tenant.name, tenant.created_at.ms, tenant.limit.sandboxes,
      number(tenant.limit.memory_bytes / kMiB), number(tenant.limit.cpu_millis),
      number(tenant.limit.processes), number(tenant.limit.disk_bytes / kMiB),
      encode_isolation(tenant.isolation.standard), encode_isolation(tenant.isolation.minimum));
  if (done) return {};
  if (done.error().code() != Code::kExists) return std::move(done).error();
  return make_error(Code::kExists, "a tenant named '{}' exists already", tenant.name);
}

Result<void> save_tenant_isolation(Connection& db, const std::string& id, const model::IsolationRule& rule) {
  TRY_VOID(db.run("UPDATE tenants SET isolation = ?, min_isolation = ? WHERE id = ?",
                  encode_isolation(rule.standard), encode_isolation(rule.minimum), id));
  return {};
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
