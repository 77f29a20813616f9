// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/rows.h"

#include "store/codec.h"

namespace atl::gateway::vault {
namespace {

using store::Blob;
using store::Connection;
using store::Statement;

constexpr const char* kInitial = R"sql(
CREATE TABLE master (
  only        INTEGER PRIMARY KEY CHECK (only = 1),
  fingerprint TEXT NOT NULL,
  sealed      BLOB NOT NULL
) STRICT;

CREATE TABLE secrets (
  id         TEXT PRIMARY KEY,
  tenant     TEXT NOT NULL,
  name       TEXT NOT NULL,
  config     TEXT NOT NULL,
  version    INTEGER NOT NULL,
  sealed     BLOB NOT NULL,
  metadata   TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (tenant, name)
) STRICT;

CREATE TABLE tokens (
  secret TEXT PRIMARY KEY REFERENCES secrets(id) ON DELETE CASCADE,
  sealed BLOB NOT NULL
) STRICT;

CREATE TABLE bindings (
  id     TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  secret TEXT NOT NULL REFERENCES secrets(id) ON DELETE CASCADE,
  rule   TEXT NOT NULL
) STRICT;
)sql";

constexpr const char* kServices = R"sql(
CREATE TABLE services (
  tenant TEXT NOT NULL,
  name   TEXT NOT NULL,
  rule   TEXT NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT;
)sql";

}  // namespace

std::vector<store::Migration> vault_migrations() {
  return {{"vault_0001_initial", kInitial}, {"vault_0002_services", kServices}};
}

Result<KeyRow> load_key(Connection& db) {
  TRY(Statement rows, db.prepare("SELECT fingerprint, sealed FROM master"));
  TRY(bool found, rows.step());
  if (!found) return KeyRow{};
  return KeyRow{rows.text(0), rows.text(1)};
}

Result<void> save_key(Connection& db, const KeyRow& row) {
  TRY_VOID(db.run("INSERT OR REPLACE INTO master VALUES (1,?,?)", row.fingerprint, Blob{row.sealed}));
  return success();
}

Result<std::vector<StoredSecret>> load_secrets(Connection& db) {
  std::vector<StoredSecret> out;
  TRY(Statement rows,
      db.prepare("SELECT id, tenant, name, config, version, metadata, created_at, updated_at, sealed"
                 " FROM secrets ORDER BY created_at, id"));
  while (true) {
    TRY(bool more, rows.step());
    if (!more) return out;
    TRY(auto metadata, store::decode_map(rows.text(5)));
    SecretRow row{rows.text(0),
                  rows.text(1),
                  rows.text(2),
                  rows.text(3),
                  static_cast<std::uint64_t>(rows.integer(4)),
                  std::move(metadata),
                  {rows.integer(6)},
                  {rows.integer(7)}};
    out.push_back({std::move(row), rows.text(8)});
  }
}

Result<void> insert_secret(Connection& db, const SecretRow& row, const std::string& sealed) {
  auto done = db.run("INSERT INTO secrets VALUES (?,?,?,?,?,?,?,?,?)", row.id, row.tenant, row.name,
                     row.config, row.version, Blob{sealed}, store::encode_map(row.metadata),
                     row.created_at.ms, row.updated_at.ms);
  if (done.ok()) return success();
  if (done.error().code() != Code::kExists) return std::move(done).error();
  return make_error(Code::kExists, "a secret named '{}' exists already", row.name)
      .with_hint("give it a new value with: atoll secret rotate");
}

Result<void> update_secret(Connection& db, const SecretRow& row, const std::string& sealed) {
  TRY(int changed,
      db.run("UPDATE secrets SET version = ?, sealed = ?, metadata = ?, updated_at = ? WHERE id = ?",
             row.version, Blob{sealed}, store::encode_map(row.metadata), row.updated_at.ms, row.id));
  if (changed == 0) return make_error(Code::kNotFound, "no secret {}", row.id);
  // They were made with the value that is gone.
  TRY_VOID(db.run("DELETE FROM tokens WHERE secret = ?", row.id));
  return success();
}

Result<void> delete_secret(Connection& db, const std::string& id) {
  TRY_VOID(db.run("DELETE FROM secrets WHERE id = ?", id));
  return success();
}

Result<void> save_tokens(Connection& db, const SecretRow& row, const std::string& sealed) {
  TRY_VOID(db.run("INSERT OR REPLACE INTO tokens SELECT id, ? FROM secrets WHERE id = ? AND version = ?",
                  Blob{sealed}, row.id, row.version));
  return success();
}

Result<std::string> load_tokens(Connection& db, const std::string& secret) {
  TRY(Statement rows, db.prepare("SELECT sealed FROM tokens WHERE secret = ?"));
  rows.bind(secret);
  TRY(bool found, rows.step());
  return found ? rows.text(0) : std::string();
}

Result<std::vector<BindingRow>> load_bindings(Connection& db) {
  std::vector<BindingRow> out;
  TRY(Statement rows, db.prepare("SELECT id, tenant, secret, rule FROM bindings ORDER BY rowid"));
  while (true) {
    TRY(bool more, rows.step());
    if (!more) return out;
    out.push_back({rows.text(0), rows.text(1), rows.text(2), rows.text(3)});
  }
}

Result<void> insert_binding(Connection& db, const BindingRow& row) {
  TRY_VOID(db.run("INSERT INTO bindings VALUES (?,?,?,?)", row.id, row.tenant, row.secret, row.rule));
  return success();
}

Result<void> delete_binding(Connection& db, const std::string& id) {
  TRY_VOID(db.run("DELETE FROM bindings WHERE id = ?", id));
  return success();
}

Result<std::vector<ServiceRow>> load_services(Connection& db) {
  std::vector<ServiceRow> out;
  TRY(Statement rows, db.prepare("SELECT tenant, name, rule FROM services ORDER BY tenant, name"));
  while (true) {
    TRY(bool more, rows.step());
    if (!more) return out;
    out.push_back({rows.text(0), rows.text(1), rows.text(2)});
  }
}

Result<void> put_service(Connection& db, const ServiceRow& row) {
  TRY_VOID(db.run("INSERT OR REPLACE INTO services VALUES (?,?,?)", row.tenant, row.name, row.rule));
  return success();
}

Result<void> delete_service(Connection& db, const std::string& tenant, const std::string& name) {
  TRY_VOID(db.run("DELETE FROM services WHERE tenant = ? AND name = ?", tenant, name));
  return success();
}

}  // namespace atl::gateway::vault
