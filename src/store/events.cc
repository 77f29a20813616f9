// SPDX-License-Identifier: Apache-2.0
#include "store/events.h"

namespace atl::store {

Result<std::int64_t> append_event(Connection& db, const model::Event& event) {
  TRY_VOID(db.run("INSERT INTO events (at, tenant, sandbox, type, message, data) VALUES (?,?,?,?,?,?)",
                  event.at.ms, event.tenant, event.sandbox, event.type, event.message, event.data));
  return db.last_insert_id();
}

Result<std::vector<model::Event>> load_events(Connection& db, const EventQuery& query) {
  std::string sql = "SELECT seq, at, tenant, sandbox, type, message, data FROM events WHERE seq > ?1";
  if (!query.all_tenants) sql += " AND tenant = ?2";
  if (!query.sandbox.empty()) sql += " AND sandbox = ?3";
  if (query.before > 0) sql += " AND seq < ?4";
  if (!query.type.empty()) sql += " AND type = ?5";
  if (!query.search.empty()) sql += " AND instr(message, ?6) > 0";
  if (query.since) sql += " AND at >= ?7";
  if (query.until) sql += " AND at <= ?8";
  sql += query.newest_first ? " ORDER BY seq DESC LIMIT ?9" : " ORDER BY seq LIMIT ?9";
  TRY(Statement rows, db.prepare(sql));
  rows.bind(query.after, query.tenant, query.sandbox, query.before, query.type, query.search,
            query.since.value_or(WallTime()).ms, query.until.value_or(WallTime()).ms,
            static_cast<std::int64_t>(query.limit));
  std::vector<model::Event> out;
  while (true) {
    TRY(bool more, rows.step());
    if (!more) return out;
    out.push_back({rows.integer(0),
                   {rows.integer(1)},
                   rows.text(2),
                   rows.text(3),
                   rows.text(4),
                   rows.text(5),
                   rows.text(6)});
  }
}

Result<int> prune_events(Connection& db, WallTime before, std::size_t keep, std::size_t limit) {
  return db.run(
      "DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE at < ?1 OR"
      " seq <= (SELECT max(seq) FROM events) - ?2 ORDER BY seq LIMIT ?3)",
      before.ms, static_cast<std::int64_t>(keep), static_cast<std::int64_t>(limit));
}

}  // namespace atl::store
