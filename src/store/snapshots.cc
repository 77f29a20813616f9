// SPDX-License-Identifier: Apache-2.0
#include "store/snapshots.h"

#include "store/codec.h"

namespace atl::store {
namespace {

template <class T>
T number(const Statement& row, int column) {
  return static_cast<T>(row.integer(column));
}

Result<model::Snapshot> read_row(const Statement& row) {
  model::Snapshot out;
  out.id = row.text(0);
  out.tenant = row.text(1);
  out.state = number<model::SnapshotState>(row, 2);
  out.is_fork = row.integer(3) != 0;
  out.name_space = row.text(4);
  out.name = row.text(5);
  out.tag = row.text(6);
  out.sandbox = row.text(7);
  out.tier = number<model::Tier>(row, 8);
  out.build.id = row.text(9);
  out.build.template_id = row.text(10);
  out.alias = row.text(11);
  out.build.user = row.text(12);
  out.build.workdir = row.text(13);
  TRY(out.build.envs, decode_map(row.text(14)));
  out.build.limits.memory_bytes = number<std::uint64_t>(row, 15);
  out.build.limits.cpu_millis = number<std::uint32_t>(row, 16);
  out.build.limits.processes = number<std::uint32_t>(row, 17);
  out.build.limits.open_files = number<std::uint32_t>(row, 18);
  out.build.limits.disk_bytes = number<std::uint64_t>(row, 19);
  out.stored_bytes = number<std::uint64_t>(row, 20);
  out.created_at = {row.integer(21)};
  out.build.created_at = out.created_at;
  out.build.idle_timeout = Millis(row.integer(22));
  out.memory = row.integer(23) != 0;
  std::string token = row.text(24);
  if (out.memory && token.size() != out.internal_token.size())
    return make_error(Code::kCorrupt, "snapshot {} has no token", out.id);
  if (out.memory) std::copy(token.begin(), token.end(), out.internal_token.begin());
  return out;
}

}  // namespace

Result<std::vector<model::Snapshot>> load_snapshots(Connection& db) {
  std::vector<model::Snapshot> out;
  TRY(Statement rows,
      db.prepare(
          "SELECT id, tenant, state, is_fork, name_space, name, tag, sandbox, tier, build, template, alias,"
          " user, workdir, envs, memory_bytes, cpu_millis, processes, open_files, disk_bytes, stored_bytes,"
          " created_at, idle_timeout_ms, memory, internal_token FROM snapshots ORDER BY created_at, id"));
  while (true) {
    TRY(bool more, rows.step());
    if (!more) return out;
    TRY(model::Snapshot row, read_row(rows));
    out.push_back(std::move(row));
  }
}

// Its name comes with update_snapshot(), so that the one that has it keeps it until this one is ready.
Result<void> insert_snapshot(Connection& db, const model::Snapshot& row) {
  const model::Build& build = row.build;
  // Of no use without memory, so it is not kept.
  std::string_view bytes(reinterpret_cast<const char*>(row.internal_token.data()), row.internal_token.size());
  Blob token{row.memory ? bytes : std::string_view()};
  TRY_VOID(db.run("INSERT INTO snapshots VALUES (?,?,?,?,?,'',?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", row.id,
                  row.tenant, static_cast<int>(row.state), row.is_fork, row.name_space, row.tag, row.sandbox,
                  static_cast<int>(row.tier), build.id, build.template_id, row.alias, build.user,
                  build.workdir, encode_map(build.envs), build.limits.memory_bytes, build.limits.cpu_millis,
                  build.limits.processes, build.limits.open_files, build.limits.disk_bytes, row.stored_bytes,
                  row.created_at.ms, build.idle_timeout.count(), row.memory, token));
  return {};
}

Result<void> update_snapshot(Connection& db, const model::Snapshot& row) {
  if (!row.name.empty()) {
    TRY_VOID(db.run("UPDATE snapshots SET name = '' WHERE tenant = ? AND name = ? AND tag = ? AND id != ?",
                    row.tenant, row.name, row.tag, row.id));
  }
  TRY_VOID(db.run("UPDATE snapshots SET state = ?, name = ?, stored_bytes = ? WHERE id = ?",
                  static_cast<int>(row.state), row.name, row.stored_bytes, row.id));
  return {};
}

Result<void> delete_snapshot(Connection& db, const std::string& id) {
  TRY_VOID(db.run("DELETE FROM snapshots WHERE id = ?", id));
  return {};
}

}  // namespace atl::store
