// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/rates.h"

#include <gtest/gtest.h>

#include "gateway/flow/refusal.h"

namespace atl::gateway {
namespace {

using policy::RateBound;

const std::vector<RateBound> kTwoInTen{{"tenant/slow", {2, 10}}};

TEST(Rates, ABucketHoldsWhatTheRuleAllowsAndFillsEvenly) {
  ManualClock clock;
  Rates rates(clock);
  EXPECT_FALSE(rates.take("a", kTwoInTen));
  EXPECT_FALSE(rates.take("a", kTwoInTen));
  auto late = rates.take("a", kTwoInTen);
  ASSERT_TRUE(late);
  EXPECT_EQ(late->rule, "tenant/slow");
  EXPECT_EQ(late->wait, std::chrono::seconds(5));
  clock.advance(Millis(4999));
  ASSERT_TRUE(rates.take("a", kTwoInTen));
  EXPECT_EQ(rates.take("a", kTwoInTen)->wait, std::chrono::seconds(1));
  clock.advance(Millis(1));
  EXPECT_FALSE(rates.take("a", kTwoInTen));
  EXPECT_TRUE(rates.take("a", kTwoInTen));
  clock.advance(std::chrono::hours(1));  // no more than the bucket holds
  EXPECT_FALSE(rates.take("a", kTwoInTen));
  EXPECT_FALSE(rates.take("a", kTwoInTen));
  EXPECT_TRUE(rates.take("a", kTwoInTen));
}

TEST(Rates, TheWallClockDoesNotCount) {
  ManualClock clock;
  Rates rates(clock);
  (void)rates.take("a", kTwoInTen);
  (void)rates.take("a", kTwoInTen);
  clock.step_wall(std::chrono::hours(24));
  EXPECT_TRUE(rates.take("a", kTwoInTen));
}

TEST(Rates, EachSandboxAndRuleHasItsOwn) {
  ManualClock clock;
  Rates rates(clock);
  (void)rates.take("a", kTwoInTen);
  (void)rates.take("a", kTwoInTen);
  EXPECT_TRUE(rates.take("a", kTwoInTen));
  EXPECT_FALSE(rates.take("b", kTwoInTen));
  EXPECT_FALSE(rates.take("a", {{"sandbox/other", {2, 10}}}));
  EXPECT_FALSE(rates.take("a", {}));
}

TEST(Rates, WhatOneRuleRefusesIsNotTakenFromAnother) {
  ManualClock clock;
  Rates rates(clock);
  const std::vector<RateBound> both{{"r/wide", {3, 60}}, {"r/narrow", {1, 60}}};
  EXPECT_FALSE(rates.take("a", both));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(rates.take("a", both)->rule, "r/narrow");
  EXPECT_FALSE(rates.take("a", {both[0]}));
  EXPECT_FALSE(rates.take("a", {both[0]}));
  auto late = rates.take("a", both);  // both are empty now: the longer wait is told
  ASSERT_TRUE(late);
  EXPECT_EQ(late->rule, "r/narrow");
  EXPECT_EQ(late->wait, std::chrono::seconds(60));
}

TEST(Rates, AChangedRuleBeginsAnewAndWhatIsGoneIsForgotten) {
  ManualClock clock;
  Rates rates(clock);
  (void)rates.take("a", {{"r", {1, 60}}});
  EXPECT_TRUE(rates.take("a", {{"r", {1, 60}}}));
  EXPECT_FALSE(rates.take("a", {{"r", {2, 60}}}));
  EXPECT_EQ(rates.size(), 1u);
  rates.forget("a");
  EXPECT_EQ(rates.size(), 0u);
  EXPECT_FALSE(rates.take("a", {{"r", {2, 60}}}));
}

TEST(Rates, TheRefusalSaysWhenToTryAgain) {
  policy::Refusal refusal = rate_refusal({"tenant/slow", {2, 10}, std::chrono::seconds(5)});
  HttpRefusal answer = http_refusal(429, refusal, std::chrono::seconds(5));
  EXPECT_EQ(answer.head.headers.find("retry-after"), "5");
  EXPECT_EQ(answer.head.headers.find("x-atoll-rule"), "tenant/slow");
  EXPECT_EQ(answer.head.headers.find("x-should-retry"), "true");
  EXPECT_NE(answer.body.find("2 requests in 10 s"), std::string::npos) << answer.body;
  EXPECT_EQ(http_refusal(403, refusal).head.headers.find("x-should-retry"), "false");
}

}  // namespace
}  // namespace atl::gateway
