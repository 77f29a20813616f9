// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/rates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/random.h"
#include "gateway/flow/refusal.h"

namespace atl::gateway {
namespace {

using policy::RateBound;

const std::vector<RateBound> kTwoInTen{{"tenant/slow", {2, 10}}};

class RatesTest : public ::testing::Test {
 protected:
  RatesTest() : folder_(std::filesystem::temp_directory_path() / ("atoll-rates-" + random_hex(8))) {
    std::filesystem::create_directories(folder_);
    open();
  }
  ~RatesTest() override {
    rates_.reset();
    std::filesystem::remove_all(folder_);
  }
  // Also again: as after a kill, with nothing in memory.
  void open() {
    rates_.reset();
    auto opened = Rates::open((folder_ / "rates.db").string(), clock_);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    rates_ = std::move(*opened);
  }
  void run(async::Task<> task) {
    async::asio::io_context loop;
    async::asio::co_spawn(loop, std::move(task), async::asio::detached);
    loop.run();
  }
  static async::Task<> keep(async::Task<std::optional<Rates::TooMany>> task,
                            std::optional<Rates::TooMany>& out) {
    out = co_await std::move(task);
  }
  std::optional<Rates::TooMany> take(const std::string& sandbox, const std::vector<RateBound>& bounds) {
    std::optional<Rates::TooMany> out;
    run(keep(rates_->take(sandbox, bounds), out));
    return out;
  }
  // How many go through now, one after the other.
  std::size_t all(const std::string& sandbox, const std::vector<RateBound>& bounds) {
    std::size_t count = 0;
    while (!take(sandbox, bounds)) ++count;
    return count;
  }

  const std::filesystem::path folder_;
  ManualClock clock_;
  std::unique_ptr<Rates> rates_;
};

TEST_F(RatesTest, ABucketHoldsWhatTheRuleAllowsAndFillsEvenly) {
  EXPECT_FALSE(take("a", kTwoInTen));
  EXPECT_FALSE(take("a", kTwoInTen));
  auto late = take("a", kTwoInTen);
  ASSERT_TRUE(late);
  EXPECT_EQ(late->rule, "tenant/slow");
  EXPECT_EQ(late->wait, std::chrono::seconds(5));
  clock_.advance(Millis(4999));
  ASSERT_TRUE(take("a", kTwoInTen));
  EXPECT_EQ(take("a", kTwoInTen)->wait, std::chrono::seconds(1));
  clock_.advance(Millis(1));
  EXPECT_FALSE(take("a", kTwoInTen));
  EXPECT_TRUE(take("a", kTwoInTen));
  clock_.advance(std::chrono::hours(1));  // no more than the bucket holds
  EXPECT_FALSE(take("a", kTwoInTen));
  EXPECT_FALSE(take("a", kTwoInTen));
  EXPECT_TRUE(take("a", kTwoInTen));
}

TEST_F(RatesTest, TheWallClockDoesNotCount) {
  (void)take("a", kTwoInTen);
  (void)take("a", kTwoInTen);
  clock_.step_wall(std::chrono::hours(24));
  EXPECT_TRUE(take("a", kTwoInTen));
}

TEST_F(RatesTest, EachSandboxAndRuleHasItsOwn) {
  (void)take("a", kTwoInTen);
  (void)take("a", kTwoInTen);
  EXPECT_TRUE(take("a", kTwoInTen));
  EXPECT_FALSE(take("b", kTwoInTen));
  EXPECT_FALSE(take("a", {{"sandbox/other", {2, 10}}}));
  EXPECT_FALSE(take("a", {}));
}

TEST_F(RatesTest, WhatOneRuleRefusesIsNotTakenFromAnother) {
  const std::vector<RateBound> both{{"r/wide", {3, 60}}, {"r/narrow", {1, 60}}};
  EXPECT_FALSE(take("a", both));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(take("a", both)->rule, "r/narrow");
  EXPECT_FALSE(take("a", {both[0]}));
  EXPECT_FALSE(take("a", {both[0]}));
  auto late = take("a", both);  // both are empty now: the longer wait is told
  ASSERT_TRUE(late);
  EXPECT_EQ(late->rule, "r/narrow");
  EXPECT_EQ(late->wait, std::chrono::seconds(60));
}

TEST_F(RatesTest, AChangedRuleBeginsAnewAndWhatIsGoneIsForgotten) {
  (void)take("a", {{"r", {1, 60}}});
  EXPECT_TRUE(take("a", {{"r", {1, 60}}}));
  EXPECT_FALSE(take("a", {{"r", {2, 60}}}));
  EXPECT_EQ(rates_->size(), 1u);
  run(rates_->forget("a"));
  EXPECT_EQ(rates_->size(), 0u);
  EXPECT_FALSE(take("a", {{"r", {2, 60}}}));
}

TEST_F(RatesTest, ANewGatewayGivesNoFreshBucket) {
  EXPECT_FALSE(take("a", kTwoInTen));
  open();
  EXPECT_FALSE(take("a", kTwoInTen));
  open();
  auto late = take("a", kTwoInTen);
  ASSERT_TRUE(late);
  EXPECT_EQ(late->wait, std::chrono::seconds(5));
  EXPECT_FALSE(take("b", kTwoInTen));
  clock_.advance(std::chrono::seconds(5));
  open();
  EXPECT_FALSE(take("a", kTwoInTen));
  EXPECT_TRUE(take("a", kTwoInTen));
}

// Of large buckets not each request is written; a restart may cost a part of the bucket, and gives nothing.
TEST_F(RatesTest, ManyEndsOfTheGatewayGiveNothing) {
  const std::vector<RateBound> wide{{"r", {160, 1000}}};
  std::size_t through = 0;
  for (int i = 0; i < 50; ++i) {
    if (!take("a", wide)) ++through;
    open();
  }
  EXPECT_GE(through, 160u / 11);
  through += all("a", wide);
  EXPECT_LE(through, 160u);
  open();
  EXPECT_EQ(all("a", wide), 0u);
  open();
  EXPECT_EQ(all("new", wide), 160u);
  open();
  EXPECT_EQ(all("new", wide), 0u);
}

TEST_F(RatesTest, RequestsAtTheSameTimeAreAllWritten) {
  const std::vector<RateBound> wide{{"r", {64, 1000}}};
  async::asio::io_context loop;
  std::vector<std::optional<Rates::TooMany>> late(80);
  for (auto& one : late)
    async::asio::co_spawn(loop, keep(rates_->take("a", wide), one), async::asio::detached);
  loop.run();
  EXPECT_EQ(std::count(late.begin(), late.end(), std::nullopt), 64);
  open();
  EXPECT_EQ(all("a", wide), 0u);
}

TEST_F(RatesTest, AClockThatWasSetBackCostsOneBucketAtMost) {
  EXPECT_FALSE(take("a", kTwoInTen));
  clock_.step_wall(-std::chrono::hours(24));
  open();
  EXPECT_TRUE(take("a", kTwoInTen));
  clock_.advance(std::chrono::seconds(10));
  EXPECT_EQ(all("a", kTwoInTen), 2u);
}

TEST_F(RatesTest, WhatIsGoneOrFullAgainIsNotStored) {
  EXPECT_FALSE(take("a", kTwoInTen));
  EXPECT_FALSE(take("b", kTwoInTen));
  run(rates_->forget("a"));
  open();
  EXPECT_EQ(rates_->size(), 1u);
  clock_.advance(std::chrono::seconds(5));
  open();
  EXPECT_EQ(rates_->size(), 0u);
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
