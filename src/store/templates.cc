// SPDX-License-Identifier: Apache-2.0
#include "store/templates.h"

#include "store/codec.h"

namespace atl::store {
namespace {

Result<std::vector<model::Build>> load_builds(Connection& db) {
  std::vector<model::Build> out;
  TRY(Statement rows,
      db.prepare("SELECT id, template, user, workdir, envs, memory_bytes, cpu_millis, processes,"
                 " open_files, disk_bytes, created_at, idle_timeout_ms FROM builds ORDER BY created_at, id"));
  while (true) {
    TRY(bool more, rows.step());
    if (!more) return out;
    model::Build build;
    build.id = rows.text(0);
    build.template_id = rows.text(1);
    build.user = rows.text(2);
    build.workdir = rows.text(3);
    TRY(build.envs, decode_map(rows.text(4)));
    build.limits.memory_bytes = static_cast<std::uint64_t>(rows.integer(5));
    build.limits.cpu_millis = static_cast<std::uint32_t>(rows.integer(6));
    build.limits.processes = static_cast<std::uint32_t>(rows.integer(7));
    build.limits.open_files = static_cast<std::uint32_t>(rows.integer(8));
    build.limits.disk_bytes = static_cast<std::uint64_t>(rows.integer(9));
    build.created_at = {rows.integer(10)};
    build.idle_timeout = Millis(rows.integer(11));
    out.push_back(std::move(build));
  }
}

Result<std::map<std::string, std::string>> load_tags(Connection& db, const std::string& template_id) {
  std::map<std::string, std::string> out;
  TRY(Statement rows, db.prepare("SELECT tag, build FROM tags WHERE template = ?"));
  rows.bind(template_id);
  while (true) {
    TRY(bool more, rows.step());
    if (!more) return out;
    out.emplace(rows.text(0), rows.text(1));
  }
}

}  // namespace

Result<StoredTemplates> load_templates(Connection& db) {
  StoredTemplates out;
  TRY(out.builds, load_builds(db));
  TRY(Statement rows,
      db.prepare(
          "SELECT id, tenant, name_space, alias, is_public, pool_size, created_at, updated_at,"
          " last_spawned_at, spawn_count, isolation, min_isolation FROM templates ORDER BY created_at, id"));
  while (true) {
    TRY(bool more, rows.step());
    if (!more) return out;
    model::Template row;
    row.id = rows.text(0);
    row.tenant = rows.text(1);
    row.name_space = rows.text(2);
    row.alias = rows.text(3);
    row.is_public = rows.integer(4) != 0;
    if (rows.integer(5) >= 0) row.pool_size = static_cast<std::uint32_t>(rows.integer(5));
    row.created_at = {rows.integer(6)};
    row.updated_at = {rows.integer(7)};
    row.last_spawned_at = {rows.integer(8)};
    row.spawn_count = static_cast<std::uint64_t>(rows.integer(9));
    TRY(row.isolation.standard, decode_isolation(rows.text(10)));
    TRY(row.isolation.minimum, decode_isolation(rows.text(11)));
    TRY(row.tags, load_tags(db, row.id));
    out.templates.push_back(std::move(row));
  }
}

Result<void> save_template(Connection& db, const model::Template& row) {
  auto done = db.run(
      "INSERT INTO templates VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12) ON CONFLICT(id) DO UPDATE SET"
      " is_public=?5, pool_size=?6, updated_at=?8, isolation=?11, min_isolation=?12",
      row.id, row.tenant, row.name_space, row.alias, row.is_public,
      row.pool_size ? static_cast<std::int64_t>(*row.pool_size) : -1, row.created_at.ms, row.updated_at.ms,
      row.last_spawned_at.ms, row.spawn_count, encode_isolation(row.isolation.standard),
      encode_isolation(row.isolation.minimum));
  if (!done && done.error().code() == Code::kExists) {
    return make_error(Code::kExists, "a template named '{}' exists already", row.alias);
  }
  TRY_VOID(std::move(done));
  TRY_VOID(db.run("DELETE FROM tags WHERE template = ?", row.id));
  for (const auto& [tag, build] : row.tags) {
    TRY_VOID(db.run("INSERT INTO tags VALUES (?,?,?)", row.id, tag, build));
  }
  return {};
}

Result<void> insert_build(Connection& db, const model::Build& build) {
  auto done = db.run("INSERT INTO builds VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", build.id, build.template_id,
                     build.user, build.workdir, encode_map(build.envs), build.limits.memory_bytes,
                     build.limits.cpu_millis, build.limits.processes, build.limits.open_files,
                     build.limits.disk_bytes, build.created_at.ms, build.idle_timeout.count());
  if (!done && done.error().code() == Code::kExists) {
    return make_error(Code::kExists, "build {} is registered already; builds are immutable", build.id);
  }
  TRY_VOID(std::move(done));
  return {};
}

Result<void> delete_template(Connection& db, const std::string& id) {
  TRY_VOID(db.run("DELETE FROM templates WHERE id = ?", id));
  return {};
}

Result<void> count_spawn(Connection& db, const std::string& template_id, WallTime at) {
  TRY_VOID(db.run("UPDATE templates SET spawn_count = spawn_count + 1, last_spawned_at = ? WHERE id = ?",
                  at.ms, template_id));
  return {};
}

}  // namespace atl::store
