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

namespace atl::gateway {

// Use from one loop. Kept in memory only: a new gateway begins with full buckets.
class Rates {
 public:
  explicit Rates(const Clock& clock) : clock_(clock) {}

  // A request that comes too early.
  struct TooMany {
    std::string rule;
    policy::Rate rate;
    std::chrono::seconds wait{1};  // at least, rounded up
  };
  // Counts one request against all bounds; when one of them has no room, against none, and says which one has
  // to be waited for the longest.
  std::optional<TooMany> take(const std::string& sandbox, const std::vector<policy::RateBound>& bounds);
  // Nothing is kept of it any more.
  void forget(const std::string& sandbox) { buckets_.erase(sandbox); }
  std::size_t size() const { return buckets_.size(); }

 private:
  struct Bucket {
    policy::Rate rate;
    double tokens = 0;
    Steady::time_point at{};  // when `tokens` was right
  };
  // Filled up to now.
  Bucket& bucket(const std::string& sandbox, const policy::RateBound& bound, Steady::time_point now);

  const Clock& clock_;
  std::unordered_map<std::string, std::map<std::string, Bucket>> buckets_;
};

// What the program inside is told.
policy::Refusal rate_refusal(const Rates::TooMany& late);

}  // namespace atl::gateway
