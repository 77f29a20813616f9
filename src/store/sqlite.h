// SPDX-License-Identifier: Apache-2.0
//
// SQLite's C API as owner types. Blocking; used on the store's own thread only (store/database.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace atl::store {

struct Blob {
  std::string_view bytes;
};

// One use of a prepared statement. Goes back to the connection's cache, reset, when destroyed. Move-only.
class Statement {
 public:
  explicit Statement(sqlite3_stmt* handle) : handle_(handle) {}
  Statement(Statement&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), next_(other.next_) {}
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  // Binds the next parameters in order. Texts are copied.
  template <class... Values>
  Statement& bind(const Values&... values) {
    (bind_one(values), ...);
    return *this;
  }
  // True when there is a row, false at the end.
  Result<bool> step();
  std::int64_t integer(int column) const;
  std::string text(int column) const;  // also of blobs

 private:
  void bind_one(std::int64_t value);
  void bind_one(std::uint64_t value) { bind_one(static_cast<std::int64_t>(value)); }
  void bind_one(std::uint32_t value) { bind_one(static_cast<std::int64_t>(value)); }
  void bind_one(int value) { bind_one(static_cast<std::int64_t>(value)); }
  void bind_one(bool value) { bind_one(static_cast<std::int64_t>(value)); }
  void bind_one(std::string_view value);
  void bind_one(const std::string& value) { bind_one(std::string_view(value)); }
  void bind_one(const char* value) { bind_one(std::string_view(value)); }
  void bind_one(Blob value);

  sqlite3_stmt* handle_;
  int next_ = 1;
};

// One open database file: WAL, synchronous=FULL, defensive settings. Pinned, single thread.
class Connection {
 public:
  // kCorrupt when the file is damaged or no database.
  static Result<std::unique_ptr<Connection>> open(const std::string& path);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // From the cache, or newly prepared. Do not use the same text twice at a time.
  Result<Statement> prepare(std::string_view sql);
  // Several statements without parameters.
  Result<void> exec(const std::string& sql);
  // One statement that gives no rows; the number of rows it changed.
  template <class... Values>
  Result<int> run(std::string_view sql, const Values&... values) {
    TRY(Statement statement, prepare(sql));
    statement.bind(values...);
    TRY_VOID(statement.step());
    return changes();
  }
  int changes() const;
  std::int64_t last_insert_id() const;
  bool in_transaction() const;
  const std::string& path() const { return path_; }

 private:
  explicit Connection(std::string path) : path_(std::move(path)) {}
  sqlite3* handle_ = nullptr;
  std::string path_;
  std::unordered_map<std::string, sqlite3_stmt*>
      cache_;  // bounded: one entry per statement text in the source
};

}  // namespace atl::store
