// SPDX-License-Identifier: Apache-2.0
#include "store/sandboxes.h"

#include <algorithm>

#include "store/codec.h"

namespace atl::store {
namespace {

constexpr char kColumns[] =
    "id, tenant, template, alias, build, tier, state, generation, owner_epoch, memory_bytes, cpu_millis, "
    "processes,"
    " open_files, disk_bytes, slot, interface, pid, start_ticks, missing_layers, internal_token, "
    "access_token,"
    " traffic_token, metadata, network, created_at, started_at, deadline, deadline_steady_ms, ended_at, "
    "outcome, reason, on_timeout, keep_memory, auto_resume, timeout_ms, rests_in_memory, user, workdir, "
    "asked, asked_by, idle_timeout_ms, active_steady_ms, pause_cause, memory_note";

constexpr int kIntentColumn = 44;  // behind all of kColumns

std::string_view bytes_of(const model::Key32& key) {
  return std::string_view(reinterpret_cast<const char*>(key.data()), key.size());
}

template <class T>
T number(const Statement& row, int column) {
  return static_cast<T>(row.integer(column));
}

Result<model::SandboxRow> read_row(const Statement& row) {
  model::SandboxRow out;
  out.id = row.text(0);
  out.tenant = row.text(1);
  out.template_id = row.text(2);
  out.alias = row.text(3);
  out.build = row.text(4);
  out.tier = number<model::Tier>(row, 5);
  out.state = number<model::State>(row, 6);
  out.generation = number<std::uint64_t>(row, 7);
  out.owner_epoch = number<std::uint64_t>(row, 8);
  out.limits.memory_bytes = number<std::uint64_t>(row, 9);
  out.limits.cpu_millis = number<std::uint32_t>(row, 10);
  out.limits.processes = number<std::uint32_t>(row, 11);
  out.limits.open_files = number<std::uint32_t>(row, 12);
  out.limits.disk_bytes = number<std::uint64_t>(row, 13);
  out.slot = number<std::uint32_t>(row, 14);
  out.interface = row.text(15);
  out.pid = number<std::uint32_t>(row, 16);
  out.start_ticks = number<std::uint64_t>(row, 17);
  out.missing_layers = number<std::uint64_t>(row, 18);
  std::string token = row.text(19);
  if (token.size() != out.internal_token.size()) {
    return make_error(Code::kCorrupt, "store: sandbox {} has a token of {} bytes", out.id, token.size());
  }
  std::copy(token.begin(), token.end(), out.internal_token.begin());
  out.access_token = Secret(row.text(20));
  out.traffic_token = Secret(row.text(21));
  TRY(out.metadata, decode_map(row.text(22)));
  TRY(NetworkColumn network, decode_network(row.text(23)));
  out.network = network.rules;
  out.ingress = network.ingress;
  out.labels = network.labels;
  out.created_at = {row.integer(24)};
  out.started_at = {row.integer(25)};
  out.deadline = {row.integer(26)};
  out.deadline_steady_ms = row.integer(27);
  out.ended_at = {row.integer(28)};
  out.outcome = row.text(29);
  out.reason = row.text(30);
  out.lifecycle.on_timeout = number<model::Lifecycle::OnTimeout>(row, 31);
  out.lifecycle.keep_memory = row.integer(32) != 0;
  out.lifecycle.auto_resume = row.integer(33) != 0;
  out.lifecycle.timeout = Millis(row.integer(34));
  out.rests_in_memory = row.integer(35) != 0;
  out.user = row.text(36);
  out.workdir = row.text(37);
  TRY(auto asked, decode_isolation(row.text(38)));
  if (asked) out.asked.word = *asked;
  out.asked.by = number<model::Asker>(row, 39);
  out.lifecycle.idle_timeout = Millis(row.integer(40));
  out.active_steady_ms = row.integer(41);
  out.pause_cause = number<model::PauseCause>(row, 42);
  out.memory_note = row.text(43);
  return out;
}

constexpr char kUpsert[] =
    "INSERT INTO sandboxes ({}) VALUES "
    "(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22,?23,"
    "?24,?25,?26,?27,?28,?29,?30,?31,?32,?33,?34,?35,?36,?37,?38,?39,?40,?41,?42,?43,?44)"
    " ON CONFLICT(id) DO UPDATE SET tenant=?2, template=?3, alias=?4, build=?5, tier=?6, state=?7, "
    "generation=?8,"
    " owner_epoch=?9, memory_bytes=?10, cpu_millis=?11, processes=?12, open_files=?13, disk_bytes=?14, "
    "slot=?15,"
    " interface=?16, pid=?17, start_ticks=?18, missing_layers=?19, internal_token=?20, access_token=?21,"
    " traffic_token=?22, metadata=?23, network=?24, created_at=?25, started_at=?26, deadline=?27,"
    " deadline_steady_ms=?28, ended_at=?29, outcome=?30, reason=?31, on_timeout=?32, keep_memory=?33, "
    "auto_resume=?34, timeout_ms=?35,"
    " rests_in_memory=?36, user=?37, workdir=?38, asked=?39, asked_by=?40, idle_timeout_ms=?41,"
    " active_steady_ms=?42, pause_cause=?43, memory_note=?44"
    " WHERE sandboxes.owner_epoch <= ?9";

}  // namespace

Result<void> save_sandbox(Connection& db, const model::SandboxRow& row,
                          const std::optional<model::Intent>& intent) {
  TRY(Statement upsert, db.prepare(fmt::format(kUpsert, kColumns)));
  upsert.bind(row.id, row.tenant, row.template_id, row.alias, row.build, static_cast<int>(row.tier),
              static_cast<int>(row.state), row.generation, row.owner_epoch, row.limits.memory_bytes,
              row.limits.cpu_millis, row.limits.processes, row.limits.open_files, row.limits.disk_bytes,
              row.slot, row.interface, row.pid, row.start_ticks, row.missing_layers,
              Blob{bytes_of(row.internal_token)}, row.access_token.reveal(), row.traffic_token.reveal(),
              encode_map(row.metadata), encode_network(row.network, row.ingress, row.labels),
              row.created_at.ms, row.started_at.ms, row.deadline.ms, row.deadline_steady_ms, row.ended_at.ms,
              row.outcome, row.reason, static_cast<int>(row.lifecycle.on_timeout),
              static_cast<int>(row.lifecycle.keep_memory), static_cast<int>(row.lifecycle.auto_resume),
              row.lifecycle.timeout.count(), static_cast<int>(row.rests_in_memory), row.user, row.workdir,
              std::string(row.asked.word.text()), static_cast<int>(row.asked.by),
              row.lifecycle.idle_timeout.count(), row.active_steady_ms, static_cast<int>(row.pause_cause),
              row.memory_note);
  TRY_VOID(upsert.step());
  if (db.changes() == 0) {
    return make_error(Code::kConflict, "sandbox {} belongs to a later owner than epoch {}", row.id,
                      row.owner_epoch)
        .with_word("fenced");
  }
  if (!intent) {
    TRY_VOID(db.run("DELETE FROM intents WHERE sandbox = ?", row.id));
    return {};
  }
  TRY_VOID(db.run("INSERT OR REPLACE INTO intents VALUES (?,?,?,?)", row.id,
                  static_cast<int>(intent->operation), intent->due.ms, row.owner_epoch));
  return {};
}

Result<void> save_activity(Connection& db, const std::vector<ActivityMark>& marks, std::uint64_t epoch) {
  for (const ActivityMark& mark : marks) {
    TRY_VOID(db.run("UPDATE sandboxes SET active_steady_ms = ? WHERE id = ? AND owner_epoch <= ?",
                    mark.active_steady_ms, mark.sandbox, epoch));
  }
  return {};
}

Result<std::vector<StoredSandbox>> load_live_sandboxes(Connection& db) {
  std::vector<StoredSandbox> out;
  TRY(Statement rows,
      db.prepare(fmt::format("SELECT {}, (SELECT operation FROM intents WHERE sandbox = id),"
                             " (SELECT due FROM intents WHERE sandbox = id) FROM sandboxes"
                             " WHERE state NOT IN ({}, {}) OR id IN (SELECT sandbox FROM intents)"
                             " ORDER BY created_at, id",
                             kColumns, static_cast<int>(model::State::kStopped),
                             static_cast<int>(model::State::kFailed))));
  while (true) {
    TRY(bool more, rows.step());
    if (!more) return out;
    StoredSandbox stored;
    TRY(stored.row, read_row(rows));
    if (rows.integer(kIntentColumn) != 0)
      stored.intent =
          model::Intent{number<model::Operation>(rows, kIntentColumn), {rows.integer(kIntentColumn + 1)}};
    out.push_back(std::move(stored));
  }
}

Result<std::optional<model::SandboxRow>> load_sandbox(Connection& db, const std::string& id) {
  TRY(Statement rows, db.prepare(fmt::format("SELECT {} FROM sandboxes WHERE id = ?", kColumns)));
  rows.bind(id);
  TRY(bool found, rows.step());
  if (!found) return std::optional<model::SandboxRow>();
  TRY(model::SandboxRow row, read_row(rows));
  return std::optional<model::SandboxRow>(std::move(row));
}

Result<std::vector<model::SandboxRow>> load_ended_sandboxes(Connection& db, const std::string& tenant,
                                                            std::size_t limit) {
  std::vector<model::SandboxRow> out;
  TRY(Statement rows,
      db.prepare(fmt::format(
          "SELECT {} FROM sandboxes WHERE ended_at > 0 AND tenant = ? ORDER BY ended_at DESC LIMIT ?",
          kColumns)));
  rows.bind(tenant, static_cast<std::int64_t>(limit));
  while (true) {
    TRY(bool more, rows.step());
    if (!more) return out;
    TRY(model::SandboxRow row, read_row(rows));
    out.push_back(std::move(row));
  }
}

Result<int> prune_sandboxes(Connection& db, WallTime before, std::size_t keep, std::size_t limit) {
  auto most = static_cast<std::int64_t>(limit);
  TRY(int old,
      db.run(
          "DELETE FROM sandboxes WHERE id IN (SELECT id FROM sandboxes WHERE ended_at > 0 AND ended_at < ?1"
          " AND id NOT IN (SELECT sandbox FROM intents) ORDER BY ended_at LIMIT ?2)",
          before.ms, most));
  TRY(int beyond,
      db.run("DELETE FROM sandboxes WHERE id IN (SELECT id FROM sandboxes WHERE ended_at > 0"
             " AND id NOT IN (SELECT sandbox FROM intents) ORDER BY ended_at DESC LIMIT ?1 OFFSET ?2)",
             most, static_cast<std::int64_t>(keep)));
  return old + beyond;
}

}  // namespace atl::store
