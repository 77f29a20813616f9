// SPDX-License-Identifier: Apache-2.0
#include "base/fair_share.h"

#include <gtest/gtest.h>

#include <vector>

namespace atl {
namespace {

// How much a user gets who takes all that he can, one by one.
std::size_t take_all(FairShare& share, const std::string& user, std::vector<FairShare::Part>& parts) {
  std::size_t count = 0;
  for (; auto part = share.take(user, 1); ++count) parts.push_back(std::move(*part));
  return count;
}

TEST(FairShare, OneUserLeavesHalfAndManyLeaveSomethingForOneMore) {
  FairShare share(120, 1000);
  std::vector<FairShare::Part> parts;
  EXPECT_EQ(take_all(share, "a", parts), 60u);
  EXPECT_EQ(take_all(share, "b", parts), 30u);
  EXPECT_EQ(take_all(share, "a", parts), 0u);
  for (const char* user : {"c", "d"}) EXPECT_GT(take_all(share, user, parts), 0u) << user;
  EXPECT_LT(share.used(), 120u);
}

TEST(FairShare, NobodyHoldsMoreThanTheMostOfOne) {
  FairShare share(100, 7);
  std::vector<FairShare::Part> parts;
  EXPECT_EQ(take_all(share, "a", parts), 7u);
  EXPECT_FALSE(share.take("b", 8));
  EXPECT_TRUE(share.take("b", 7));
  EXPECT_FALSE(share.take("b", SIZE_MAX));
}

TEST(FairShare, WhatGoesIsGivenBackOnce) {
  FairShare share(10, 10);
  {
    auto part = share.take("a", 2);
    ASSERT_TRUE(part && part->grow(3));
    EXPECT_FALSE(part->grow(1));
    EXPECT_EQ(part->amount(), 5u);
    FairShare::Part moved = std::move(*part);
    auto other = share.take("b", 1);
    ASSERT_TRUE(other);
    EXPECT_EQ(share.used(), 6u);
    *other = std::move(moved);
    EXPECT_EQ(share.used(), 5u);
  }
  EXPECT_EQ(share.used(), 0u);
  EXPECT_TRUE(share.take("a", 5));
}

TEST(FairShare, TellsWhatItWouldGive) {
  FairShare share(100, 30);
  FairShare::Part mine = share.of("a").open();
  EXPECT_EQ(mine.room(), 30u);
  ASSERT_TRUE(mine.grow(mine.room()));
  EXPECT_EQ(mine.room(), 0u);
  EXPECT_TRUE(mine.grow(0));
  FairShare::Part other = share.of("b").open();
  auto third = share.take("c", 23);
  ASSERT_TRUE(third);
  EXPECT_EQ(other.room(), 23u);  // and as much is left for the next one
  mine.shrink(10);
  EXPECT_EQ(mine.amount(), 20u);
  EXPECT_EQ(mine.room(), 10u);
  EXPECT_EQ(share.used(), 43u);
}

TEST(FairShare, APartMayOutliveIt) {
  std::optional<FairShare::Part> part;
  {
    FairShare share(4, 4);
    part = share.take("a", 2);
  }
  EXPECT_FALSE(part->grow(1));
  part.reset();
}

}  // namespace
}  // namespace atl
