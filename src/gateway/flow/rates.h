// SPDX-License-Identifier: Apache-2.0
//
// Rates: how many requests each sandbox has made under the rules that bound them. A bucket per sandbox and
// rule: it holds as many requests as the rule allows in its time, and fills evenly.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "gateway/policy/policy.h"
#include "store/database.h"

namespace atl::gateway {

// Use from one loop. What was let through is on disk before it goes out, so that an end of the gateway gives
// nobody a fresh bucket (decision 0133).
class Rates {
 public:
  // Opens or makes the file at `path`. Blocking.
  static Result<std::unique_ptr<Rates>> open(const std::string& path, const Clock& clock);

  // A request that comes too early.
  struct TooMany {
    std::string rule;
    policy::Rate rate;
    std::chrono::seconds wait{1};  // at least, rounded up
  };
  // Counts one request against all bounds; when one of them has no room, against none, and says which one has
  // to be waited for the longest.
  async::Task<std::optional<TooMany>> take(std::string sandbox, std::vector<policy::RateBound> bounds);
  // Nothing is kept of it any more.
  async::Task<> forget(std::string sandbox);
  std::size_t size() const { return buckets_.size(); }

 private:
  struct Bucket {
    policy::Rate rate;
    double tokens = 0;
    Steady::time_point at{};    // when `tokens` was right
    std::uint32_t ahead = 0;    // requests that are on disk already and have not been made
    std::uint32_t written = 0;  // the same, with those that are just being written
  };
  // How full a bucket is at least, as it is stored.
  struct Row {
    std::string sandbox;
    std::string rule;
    policy::Rate rate;
    std::int64_t full_at = 0;  // ms of UTC
    std::uint32_t ahead = 0;   // what is written with this request
  };

  Rates(std::unique_ptr<store::Database> db, const Clock& clock) : db_(std::move(db)), clock_(clock) {}
  Result<void> load();
  static Result<std::vector<Row>> read_rows(store::Connection& db, std::int64_t now);
  static Result<void> save(store::Connection& db, const std::vector<Row>& rows);
  std::optional<TooMany> too_many(const std::string& sandbox, const std::vector<policy::RateBound>& bounds);
  // Filled up to now.
  Bucket& bucket(const std::string& sandbox, const policy::RateBound& bound, Steady::time_point now);
  Row write_ahead(const std::string& sandbox, const std::string& rule, Bucket& bucket) const;
  void settle(const Row& row, bool stored);

  std::unique_ptr<store::Database> db_;
  const Clock& clock_;
  std::unordered_map<std::string, std::map<std::string, Bucket>> buckets_;
};

// What the program inside is told.
policy::Refusal rate_refusal(const Rates::TooMany& late);

}  // namespace atl::gateway
