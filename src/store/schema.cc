// SPDX-License-Identifier: Apache-2.0
#include "store/schema.h"

#include "base/log.h"

namespace atl::store {
namespace {

constexpr std::int64_t kApplicationId = 0x41544c31;  // "ATL1", PRAGMA application_id

Result<std::int64_t> pragma(Connection& connection, const char* name) {
  TRY(auto row, connection.prepare(fmt::format("PRAGMA {}", name)));
  TRY(bool found, row.step());
  return found ? row.integer(0) : 0;
}

Result<void> apply(Connection& connection, const Migration& step, std::size_t version) {
  TRY_VOID(connection.exec("BEGIN IMMEDIATE"));
  auto steps = [&]() -> Result<void> {
    TRY_VOID(connection.exec(step.sql));
    TRY_VOID(connection.exec(fmt::format("PRAGMA application_id = {}", kApplicationId)));
    TRY_VOID(connection.exec(fmt::format("PRAGMA user_version = {}", version)));
    return connection.exec("COMMIT");
  }();
  if (!steps) {
    (void)connection.exec("ROLLBACK");  // the failure of the step itself is the one to report
    return std::move(steps).error().context(fmt::format("migration {}", step.name));
  }
  log::info("database migrated", {{"step", step.name}});
  return {};
}

}  // namespace

Result<void> migrate(Connection& connection, const std::vector<Migration>& steps) {
  TRY(std::int64_t version, pragma(connection, "user_version"));
  TRY(std::int64_t application, pragma(connection, "application_id"));
  if (version > 0 && application != kApplicationId) {
    return make_error(Code::kCorrupt, "{} is not a database of Atoll", connection.path())
        .with_hint("give another --data-dir, or move the file away");
  }
  if (version > static_cast<std::int64_t>(steps.size())) {
    return make_error(Code::kUnsupported, "{} has schema {}, this program knows up to {}", connection.path(),
                      version, steps.size())
        .with_word("schema_newer")
        .with_hint("start the newer version of Atoll again; this one changes nothing in the file");
  }
  for (auto next = static_cast<std::size_t>(version); next < steps.size(); ++next) {
    TRY_VOID(apply(connection, steps[next], next + 1));
  }
  return {};
}

}  // namespace atl::store
