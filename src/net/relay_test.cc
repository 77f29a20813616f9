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

}  // namespace
}  // namespace atl::net
