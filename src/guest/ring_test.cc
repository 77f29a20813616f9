// SPDX-License-Identifier: Apache-2.0
#include "guest/ring.h"

#include <gtest/gtest.h>

namespace atl::guest {
namespace {

std::string all(const Ring& ring, std::uint64_t from) {
  std::string out;
  for (;;) {
    Ring::Piece piece = ring.at(from, 7);
    if (piece.data.empty()) return out;
    out += piece.data;
    from = piece.offset + piece.data.size();
  }
}

TEST(Ring, GivesBackWhatWasWrittenFromAnyOffset) {
  Ring ring;
  for (int i = 0; i < 100; ++i)
    ring.append(i % 3 == 0 ? Channel::kStderr : Channel::kStdout, std::to_string(i));
  std::string whole = all(ring, 0);
  ASSERT_EQ(whole.size(), ring.end());
  for (std::uint64_t from = 0; from <= ring.end(); ++from) EXPECT_EQ(all(ring, from), whole.substr(from));
}

TEST(Ring, KeepsChannelsApart) {
  Ring ring;
  ring.append(Channel::kStdout, "ab");
  ring.append(Channel::kStderr, "cd");
  ring.append(Channel::kStdout, "ef");
  EXPECT_EQ(ring.at(1, 100).data, "b");
  EXPECT_EQ(ring.at(2, 100).channel, Channel::kStderr);
  EXPECT_EQ(ring.at(2, 100).data, "cd");
  EXPECT_EQ(ring.at(4, 100).channel, Channel::kStdout);
}

TEST(Ring, TellsWhereItBeginsAfterLosingOutput) {
  Ring ring;
  std::string block(16 * 1024, 'x');
  for (int i = 0; i < 10; ++i) ring.append(Channel::kStdout, block);
  ring.trim(64 * 1024);
  EXPECT_LE(ring.size(), 64u * 1024);
  EXPECT_EQ(ring.end(), 160u * 1024);
  Ring::Piece piece = ring.at(0, 100);
  EXPECT_EQ(piece.offset, ring.begin());
  EXPECT_GT(piece.offset, 0u);
}

// A reader that is `capacity` behind stands anywhere in a block, and loses nothing.
TEST(Ring, TheLastBytesAreKeptWholeWhereverBlocksEnd) {
  Ring ring;
  for (std::size_t size : {5'000u, 5'000u, 30'000u, 7'000u, 7'000u, 32'768u}) {
    ring.append(Channel::kStdout, std::string(size, 'x'));
    ring.trim(40'000);
    EXPECT_LE(ring.begin(), ring.end() < 40'000 ? 0 : ring.end() - 40'000);
  }
  ring.trim(0);
  EXPECT_EQ(ring.size(), 0u);
}

TEST(Ring, HasNothingBeyondItsEnd) {
  Ring ring;
  EXPECT_TRUE(ring.at(0, 10).data.empty());
  ring.append(Channel::kPty, "x");
  EXPECT_TRUE(ring.at(1, 10).data.empty());
  EXPECT_TRUE(ring.at(1000, 10).data.empty());
}

}  // namespace
}  // namespace atl::guest
