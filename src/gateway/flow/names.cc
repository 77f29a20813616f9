// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/names.h"

#include <algorithm>

#include "base/log.h"

namespace atl::gateway {
namespace {

using async::Task;
using dns::NameRow;
using store::Connection;
using store::Statement;

constexpr const char* kInitial = R"sql(
CREATE TABLE names (
  seq     INTEGER PRIMARY KEY,
  tenant  TEXT NOT NULL,
  name    TEXT NOT NULL,
  address TEXT NOT NULL,
  UNIQUE (tenant, name)
) STRICT;
)sql";

Result<std::vector<NameRow>> load_rows(Connection& db) {
  TRY(Statement rows, db.prepare("SELECT tenant, name, address FROM names ORDER BY seq"));
  std::vector<NameRow> out;
  while (true) {
    TRY(bool found, rows.step());
    if (!found) return out;
    auto address = parse_ip(rows.text(2));
    if (address) out.push_back({rows.text(0), rows.text(1), *address});
  }
}

Result<void> save(Connection& db, const NameRow& row, const std::optional<NameRow>& dropped) {
  if (dropped)
    TRY_VOID(db.run("DELETE FROM names WHERE tenant = ? AND name = ?", dropped->tenant, dropped->name));
  TRY_VOID(db.run("INSERT OR REPLACE INTO names (tenant, name, address) VALUES (?,?,?)", row.tenant, row.name,
                  row.address.text()));
  return success();
}

}  // namespace

bool is_synthetic(const IpAddress& address) {
  static const Cidr kRange(IpAddress::v4(std::array<std::uint8_t, 4>{198, 18, 0, 0}), 15);
  return kRange.contains(address);
}

Result<std::unique_ptr<Names>> Names::open(const std::string& path, std::string_view secret) {
  dns::NameTable::Key key{};
  std::copy_n(secret.begin(), std::min(secret.size(), key.size()), key.begin());
  TRY(auto db, store::Database::open(path, {{"names_0001_initial", kInitial}}));
  std::unique_ptr<Names> out(new Names(std::move(db), key));
  TRY_VOID(out->load());
  return out;
}

Result<void> Names::load() {
  TRY(std::vector<NameRow> rows, db_->run_blocking([](Connection& db) { return load_rows(db); }));
  std::size_t wrong = 0;
  for (const NameRow& row : rows) wrong += table_.restore(row) ? 0 : 1;
  if (wrong > 0) log::warn("names that cannot be were left out", {{"count", wrong}});
  return success();
}

Task<Result<IpAddress>> Names::address_of(std::string tenant, std::string name, std::string sandbox) {
  dns::NameTable::Assigned assigned = table_.assign(tenant, name, sandbox);
  if (!assigned.fresh) co_return assigned.address;
  NameRow row{tenant, name, assigned.address};
  auto job = [row, dropped = assigned.dropped](Connection& db) { return save(db, row, dropped); };
  CO_TRY_VOID(co_await db_->run(std::move(job)));
  co_return assigned.address;
}

}  // namespace atl::gateway
