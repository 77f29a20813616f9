// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite.h"

#include <sqlite3.h>

#include <cerrno>
#include <memory>

#include "base/check.h"

namespace atl::store {
namespace {

// Extended result codes: https://www.sqlite.org/rescode.html
Error to_error(sqlite3* handle, std::string_view what) {
  int extended = sqlite3_extended_errcode(handle);
  std::string message = fmt::format("store: {}: {}", what, sqlite3_errmsg(handle));
  switch (extended & 0xff) {
    case SQLITE_FULL:
      return Error(Code::kNoSpace, std::move(message))
          .with_word("disk_full")
          .with_hint("free space in the data directory");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Error(Code::kCorrupt, std::move(message))
          .with_word("store_corrupt")
          .with_hint(
              "restore state.db from a backup, or move it away to start empty; sandboxes that run are then "
              "stopped");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Error(Code::kUnavailable, std::move(message))
          .with_hint("another program holds the database; close it");
    case SQLITE_CONSTRAINT:
      if (extended == SQLITE_CONSTRAINT_UNIQUE || extended == SQLITE_CONSTRAINT_PRIMARYKEY) {
        return Error(Code::kExists, std::move(message));
      }
      return Error(Code::kInternal, std::move(message));
    case SQLITE_IOERR:
      if (sqlite3_system_errno(handle) == ENOSPC || sqlite3_system_errno(handle) == EDQUOT) {
        return Error(Code::kNoSpace, std::move(message))
            .with_word("disk_full")
            .with_hint("free space in the data directory");
      }
      return Error(Code::kUnavailable, std::move(message)).with_word("store_io");
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return Error(Code::kDenied, std::move(message)).with_hint("check owner and mode of the data directory");
    default: return Error(Code::kInternal, std::move(message));
  }
}

}  // namespace

Statement::~Statement() {
  if (!handle_) return;
  sqlite3_reset(handle_);
  sqlite3_clear_bindings(handle_);
}

Result<bool> Statement::step() {
  int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return to_error(sqlite3_db_handle(handle_), "run a statement");
}

std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_, column); }

std::string Statement::text(int column) const {
  const void* bytes = sqlite3_column_blob(handle_, column);
  auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle_, column));
  return bytes ? std::string(static_cast<const char*>(bytes), size) : std::string();
}

void Statement::bind_one(std::int64_t value) {
  CHECK(sqlite3_bind_int64(handle_, next_++, value) == SQLITE_OK, "parameter {}", next_ - 1);
}

void Statement::bind_one(std::string_view value) {
  // An empty view may have a null pointer, which SQLite would bind as NULL.
  const char* bytes = value.empty() ? "" : value.data();
  int code = sqlite3_bind_text64(handle_, next_++, bytes, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  CHECK(code == SQLITE_OK, "parameter {}", next_ - 1);
}

void Statement::bind_one(Blob value) {
  const char* bytes = value.bytes.empty() ? "" : value.bytes.data();
  int code = sqlite3_bind_blob64(handle_, next_++, bytes, value.bytes.size(), SQLITE_TRANSIENT);
  CHECK(code == SQLITE_OK, "parameter {}", next_ - 1);
}

Result<std::unique_ptr<Connection>> Connection::open(const std::string& path) {
  std::unique_ptr<Connection> connection(new Connection(path));
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  if (sqlite3_open_v2(path.c_str(), &connection->handle_, flags, nullptr) != SQLITE_OK) {
    return to_error(connection->handle_, fmt::format("open {}", path));
  }
  sqlite3_busy_timeout(connection->handle_, 5000);
  sqlite3_db_config(connection->handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  // FULL, not NORMAL: in WAL mode NORMAL loses acknowledged transactions at a power cut
  // (sqlite.org/pragma.html).
  TRY_VOID(
      connection->exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
                       "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY;"
                       "PRAGMA journal_size_limit = 67108864"));
  TRY(Statement check, connection->prepare("PRAGMA quick_check(1)"));
  TRY(bool found, check.step());
  if (!found || check.text(0) != "ok") {
    return make_error(Code::kCorrupt, "store: {} is damaged: {}", path, found ? check.text(0) : "no answer")
        .with_word("store_corrupt")
        .with_hint(
            "restore state.db from a backup, or move it away to start empty; sandboxes that run are then "
            "stopped");
  }
  return connection;
}

Connection::~Connection() {
  for (auto& [sql, statement] : cache_) sqlite3_finalize(statement);
  sqlite3_close_v2(handle_);
}

Result<Statement> Connection::prepare(std::string_view sql) {
  auto found = cache_.find(std::string(sql));
  if (found != cache_.end()) return Statement(found->second);
  sqlite3_stmt* statement = nullptr;
  int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                &statement, nullptr);
  if (code != SQLITE_OK) return to_error(handle_, fmt::format("prepare '{}'", sql.substr(0, 60)));
  cache_.emplace(sql, statement);
  return Statement(statement);
}

Result<void> Connection::exec(const std::string& sql) {
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return to_error(handle_, fmt::format("run '{}'", sql.substr(0, 60)));
  }
  return {};
}

int Connection::changes() const { return sqlite3_changes(handle_); }
std::int64_t Connection::last_insert_id() const { return sqlite3_last_insert_rowid(handle_); }
bool Connection::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

}  // namespace atl::store
