// SPDX-License-Identifier: Apache-2.0
#include "net/relay.h"

#include <gtest/gtest.h>

namespace atl::net {
namespace {

TEST(RelayBuffer, GrowsOnlyWhileItIsFilled) {
  RelayBuffer buffer;
  EXPECT_EQ(buffer.space().size(), RelayBuffer::kFirst);
  buffer.passed_on(RelayBuffer::kFirst - 1);
  EXPECT_EQ(buffer.space().size(), RelayBuffer::kFirst);
  for (int i = 0; i < 5; ++i) buffer.passed_on(buffer.space().size());
  EXPECT_EQ(buffer.space().size(), RelayBuffer::kLargest);
}

TEST(RelayBuffer, ShrinksWhenLittleComes) {
  RelayBuffer buffer;
  for (int i = 0; i < 5; ++i) buffer.passed_on(buffer.space().size());
  EXPECT_TRUE(buffer.filled());
  buffer.passed_on(buffer.space().size() / 2);
  EXPECT_EQ(buffer.space().size(), RelayBuffer::kLargest);
  EXPECT_FALSE(buffer.filled());
  for (int i = 0; i < 5; ++i) buffer.passed_on(100);
  EXPECT_EQ(buffer.space().size(), RelayBuffer::kFirst);
}

TEST(RelayBuffer, HoldsNothingOnceReleased) {
  RelayBuffer buffer;
  buffer.space()[0] = 'x';
  EXPECT_NE(buffer.view(1).data(), nullptr);
  buffer.release();
  EXPECT_EQ(buffer.view(0).data(), nullptr);
  EXPECT_EQ(buffer.space().size(), RelayBuffer::kFirst);
}

}  // namespace
}  // namespace atl::net
