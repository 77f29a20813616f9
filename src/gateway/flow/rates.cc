// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/rates.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"

namespace atl::gateway {
namespace {

using async::Task;
using store::Connection;
using store::Statement;

constexpr const char* kInitial = R"sql(
CREATE TABLE buckets (
  sandbox TEXT NOT NULL,
  rule    TEXT NOT NULL,
  count   INTEGER NOT NULL,
  seconds INTEGER NOT NULL,
  full_at INTEGER NOT NULL,
  PRIMARY KEY (sandbox, rule)
) STRICT, WITHOUT ROWID;
)sql";

// One write to the disk stands for one part of so many of a bucket, which a restart can cost a sandbox.
constexpr std::uint32_t kParts = 16;

double seconds(Steady::duration time) { return std::chrono::duration<double>(time).count(); }

double per_second(const policy::Rate& rate) { return double(rate.count) / double(rate.seconds); }

// Of doubles that were added up: a request is not refused for the billionth part of one.
constexpr double kOne = 1 - 1e-9;

}  // namespace

Result<std::unique_ptr<Rates>> Rates::open(const std::string& path, const Clock& clock) {
  TRY(auto db, store::Database::open(path, {{"rates_0001_initial", kInitial}}));
  std::unique_ptr<Rates> out(new Rates(std::move(db), clock));
  TRY_VOID(out->load());
  return out;
}

Result<std::vector<Rates::Row>> Rates::read_rows(Connection& db, std::int64_t now) {
  TRY_VOID(db.run("DELETE FROM buckets WHERE full_at <= ?", now));  // as good as new ones
  TRY(Statement rows, db.prepare("SELECT sandbox, rule, count, seconds, full_at FROM buckets"));
  std::vector<Row> out;
  while (true) {
    TRY(bool found, rows.step());
    if (!found) return out;
    policy::Rate rate{static_cast<std::uint32_t>(rows.integer(2)),
                      static_cast<std::uint32_t>(rows.integer(3))};
    out.push_back({rows.text(0), rows.text(1), rate, rows.integer(4)});
  }
}

Result<void> Rates::save(Connection& db, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    TRY_VOID(db.run(
        "INSERT OR REPLACE INTO buckets (sandbox, rule, count, seconds, full_at) VALUES (?,?,?,?,?)",
        row.sandbox, row.rule, std::int64_t(row.rate.count), std::int64_t(row.rate.seconds), row.full_at));
  }
  return success();
}

// A clock that was set back costs no more than an empty bucket.
Result<void> Rates::load() {
  std::int64_t now = clock_.now().ms;
  TRY(std::vector<Row> rows, db_->run_blocking([now](Connection& db) { return read_rows(db, now); }));
  for (const Row& row : rows) {
    double missing = double(row.full_at - now) / 1000 * per_second(row.rate);
    double tokens = std::max(0.0, double(row.rate.count) - missing);
    buckets_[row.sandbox][row.rule] = {row.rate, tokens, clock_.steady_now()};
  }
  return success();
}

Rates::Bucket& Rates::bucket(const std::string& sandbox, const policy::RateBound& bound,
                             Steady::time_point now) {
  auto [place, fresh] = buckets_[sandbox].try_emplace(bound.rule);
  Bucket& bucket = place->second;
  // A rule that says something else now is a new one.
  if (fresh || bucket.rate != bound.rate) bucket = {bound.rate, double(bound.rate.count), now};
  bucket.tokens =
      std::min(double(bucket.rate.count), bucket.tokens + seconds(now - bucket.at) * per_second(bucket.rate));
  bucket.at = now;
  return bucket;
}

std::optional<Rates::TooMany> Rates::too_many(const std::string& sandbox,
                                              const std::vector<policy::RateBound>& bounds) {
  Steady::time_point now = clock_.steady_now();
  std::optional<TooMany> late;
  double longest = 0;
  for (const policy::RateBound& bound : bounds) {
    Bucket& one = bucket(sandbox, bound, now);
    double wait = one.tokens >= kOne ? 0 : (1 - one.tokens) / per_second(one.rate);
    if (wait <= longest) continue;
    longest = wait;
    late = TooMany{bound.rule, bound.rate, std::chrono::seconds(std::max(1L, std::lround(std::ceil(wait))))};
  }
  return late;
}

// For a request that was counted: puts it on disk, and some that may follow it.
Rates::Row Rates::write_ahead(const std::string& sandbox, const std::string& rule, Bucket& bucket) const {
  double left = std::max(0.0, bucket.tokens - bucket.written);
  Row row{sandbox, rule, bucket.rate};
  row.ahead = std::min(bucket.rate.count / kParts, static_cast<std::uint32_t>(left));
  bucket.written += row.ahead;
  double missing = double(bucket.rate.count) - (bucket.tokens - bucket.written);
  row.full_at = clock_.now().ms + std::llround(std::ceil(missing / per_second(bucket.rate) * 1000));
  return row;
}

// After the write. The bucket may be another one by then.
void Rates::settle(const Row& row, bool stored) {
  auto known = buckets_.find(row.sandbox);
  if (known == buckets_.end()) return;
  auto place = known->second.find(row.rule);
  if (place == known->second.end()) return;
  Bucket& bucket = place->second;
  if (bucket.rate != row.rate || bucket.written < row.ahead) return;
  if (stored) bucket.ahead += row.ahead;
  if (!stored) bucket.written -= row.ahead;
}

Task<std::optional<Rates::TooMany>> Rates::take(std::string sandbox, std::vector<policy::RateBound> bounds) {
  if (auto late = too_many(sandbox, bounds)) co_return late;
  std::vector<Row> rows;
  for (const policy::RateBound& bound : bounds) {
    Bucket& one = buckets_[sandbox][bound.rule];
    one.tokens -= 1;
    if (one.ahead == 0) {
      rows.push_back(write_ahead(sandbox, bound.rule, one));
      continue;
    }
    --one.ahead;
    --one.written;
  }
  if (rows.empty()) co_return std::nullopt;
  auto job = [rows](Connection& db) { return save(db, rows); };
  auto saved = co_await db_->run(std::move(job));
  // The count in memory holds; a full disk stops no sandbox.
  if (!saved.ok()) log::error("rates could not be stored", {{"why", saved.error().message()}});
  for (const Row& row : rows) settle(row, saved.ok());
  co_return std::nullopt;
}

Task<> Rates::forget(std::string sandbox) {
  if (buckets_.erase(sandbox) == 0) co_return;
  auto job = [sandbox](Connection& db) { return db.run("DELETE FROM buckets WHERE sandbox = ?", sandbox); };
  auto gone = co_await db_->run(std::move(job));
  if (!gone.ok()) log::warn("rates could not be forgotten", {{"why", gone.error().message()}});
}

policy::Refusal rate_refusal(const Rates::TooMany& late) {
  return {late.rule,
          fmt::format("rule {} lets through {} requests in {} s, and this is one more", late.rule,
                      late.rate.count, late.rate.seconds),
          fmt::format("try again in {} s", late.wait.count())};
}

}  // namespace atl::gateway
