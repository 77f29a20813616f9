// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/rates.h"

#include <algorithm>
#include <cmath>

namespace atl::gateway {
namespace {

double seconds(Steady::duration time) { return std::chrono::duration<double>(time).count(); }

double per_second(const policy::Rate& rate) { return double(rate.count) / double(rate.seconds); }

// Of doubles that were added up: a request is not refused for the billionth part of one.
constexpr double kOne = 1 - 1e-9;

}  // namespace

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

std::optional<Rates::TooMany> Rates::take(const std::string& sandbox,
                                          const std::vector<policy::RateBound>& bounds) {
  Steady::time_point now = clock_.steady_now();
  std::optional<TooMany> late;
  double longest = 0;
  std::vector<Bucket*> used;  // a map's elements stay where they are
  for (const policy::RateBound& bound : bounds) {
    Bucket& one = bucket(sandbox, bound, now);
    used.push_back(&one);
    double wait = one.tokens >= kOne ? 0 : (1 - one.tokens) / per_second(one.rate);
    if (wait <= longest) continue;
    longest = wait;
    late = TooMany{bound.rule, bound.rate, std::chrono::seconds(std::max(1L, std::lround(std::ceil(wait))))};
  }
  if (late) return late;
  for (Bucket* one : used) one->tokens -= 1;
  return std::nullopt;
}

policy::Refusal rate_refusal(const Rates::TooMany& late) {
  return {late.rule,
          fmt::format("rule {} lets through {} requests in {} s, and this is one more", late.rule,
                      late.rate.count, late.rate.seconds),
          fmt::format("try again in {} s", late.wait.count())};
}

}  // namespace atl::gateway
