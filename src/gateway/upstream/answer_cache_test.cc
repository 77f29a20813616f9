// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/answer_cache.h"

#include <gtest/gtest.h>

namespace atl::gateway {
namespace {

const Steady::time_point kNow;
const auto kLater = kNow + std::chrono::seconds(1);

std::vector<IpAddress> answer() { return {*parse_ip("192.0.2.1")}; }
std::string name(std::size_t number) { return fmt::format("n{}.example", number); }

TEST(AnswerCache, AnAnswerIsGoodUntilItsTime) {
  AnswerCache cache;
  EXPECT_EQ(cache.find("a.example", kNow), nullptr);
  cache.keep("a.example", "one", answer(), kLater);
  ASSERT_NE(cache.find("a.example", kNow), nullptr);
  EXPECT_EQ(**cache.find("a.example", kNow), answer());
  EXPECT_EQ(cache.find("a.example", kLater), nullptr);
  EXPECT_EQ(cache.size(), 0u);
}

TEST(AnswerCache, WhoAsksForManyLosesHisOwn) {
  AnswerCache cache;
  cache.keep("theirs.example", "quiet", answer(), kLater);
  for (std::size_t i = 0; i < 2 * AnswerCache::kMost; ++i) cache.keep(name(i), "greedy", answer(), kLater);
  EXPECT_NE(cache.find("theirs.example", kNow), nullptr);
  EXPECT_EQ(cache.size(), AnswerCache::kMostPerAsker + 1);
  EXPECT_NE(cache.find(name(2 * AnswerCache::kMost - 1), kNow), nullptr);
  EXPECT_EQ(cache.find(name(0), kNow), nullptr);
}

TEST(AnswerCache, OfAllTheOldestGoes) {
  AnswerCache cache;
  for (std::size_t i = 0; i < AnswerCache::kMost + 1; ++i)
    cache.keep(name(i), std::to_string(i % 64), answer(), kLater);
  EXPECT_EQ(cache.size(), AnswerCache::kMost);
  EXPECT_EQ(cache.find(name(0), kNow), nullptr);
  EXPECT_NE(cache.find(name(1), kNow), nullptr);
}

TEST(AnswerCache, ANewAnswerTakesThePlaceOfTheOld) {
  AnswerCache cache;
  cache.keep("a.example", "one", answer(), kLater);
  cache.keep("a.example", "two", make_error(Code::kNotFound, "gone"), kLater);
  EXPECT_EQ(cache.size(), 1u);
  ASSERT_NE(cache.find("a.example", kNow), nullptr);
  EXPECT_FALSE(cache.find("a.example", kNow)->ok());
}

}  // namespace
}  // namespace atl::gateway
