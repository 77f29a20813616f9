// SPDX-License-Identifier: Apache-2.0
#include "model/first_use.h"

#include <gtest/gtest.h>

namespace atl::model {
namespace {

TEST(BuildNote, SurvivesARoundTrip) {
  BuildNote note{BuildNote::State::kFailed, 40, "no mirror:\nE: timeout", {1000}, {61'000}, 3, 2};
  auto again = parse_build_note(format_build_note(note));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->state, BuildNote::State::kFailed);
  EXPECT_EQ(again->percent, 40);
  EXPECT_EQ(again->text.find('\n'), std::string::npos) << "one line";
  EXPECT_NE(again->text.find("E: timeout"), std::string::npos);
  EXPECT_EQ(again->since.ms, 1000);
  EXPECT_EQ(again->not_before.ms, 61'000);
  EXPECT_EQ(again->tries, 3u);
  EXPECT_EQ(again->broken, 2u);
}

TEST(BuildNote, DamagedOnesAreRefused) {
  for (const char* bad : {"", "state building\n", "state other\npercent 1\nsince 1\nnot_before 1\ntries 1\n",
                          "state failed\npercent x\nsince 1\nnot_before 1\ntries 1\ntext \n"}) {
    EXPECT_FALSE(parse_build_note(bad).ok()) << bad;
  }
}

TEST(BuildDelay, DoublesUpToItsBound) {
  EXPECT_EQ(build_delay(1), std::chrono::minutes(1));
  EXPECT_EQ(build_delay(2), std::chrono::minutes(2));
  EXPECT_EQ(build_delay(4), std::chrono::minutes(8));
  EXPECT_EQ(build_delay(1000), std::chrono::hours(6));
}

}  // namespace
}  // namespace atl::model
