// SPDX-License-Identifier: Apache-2.0
#include "http/h2/incoming.h"

#include <gtest/gtest.h>

#include <array>

namespace atl::http {
namespace {

// The reader is always a little behind: the body never runs dry.
TEST(H2Incoming, HoldsWhatIsThereAndNotWhatWasTaken) {
  H2Incoming body;
  std::array<char, 1000> out{};
  std::size_t next = 0, expected = 0, most = 0;
  auto letter = [](std::size_t place) { return static_cast<char>('a' + place % 26); };
  auto come = [&](std::size_t count) {
    std::string bytes;
    while (bytes.size() < count) bytes += letter(next++);
    body.add(bytes);
  };
  come(5000);
  for (int i = 0; i < 10'000; ++i) {
    come(1000);
    ASSERT_EQ(body.take(out), out.size());
    for (char byte : out) ASSERT_EQ(byte, letter(expected++));
    most = std::max(most, body.received.capacity());
  }
  EXPECT_EQ(body.buffered(), 5000u);
  EXPECT_LE(most, 3 * 6000u);
}

TEST(H2Incoming, KeepsNoMemoryOfALargeBodyThatWasTaken) {
  H2Incoming body;
  body.add(std::string(1 << 20, 'x'));
  std::string out(1 << 20, '\0');
  EXPECT_EQ(body.take(out), out.size());
  EXPECT_LT(body.received.capacity(), 100u);
}

}  // namespace
}  // namespace atl::http
