// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "model/runner_protocol.h"
#include "model/sandbox.h"

namespace atl::model {
namespace {

TEST(Cidr, OnlyTheCanonicalSpellingIsAccepted) {
  EXPECT_EQ(format_cidr(*parse_cidr("10.0.0.0/8")), "10.0.0.0/8");
  EXPECT_EQ(format_cidr(*parse_cidr("0.0.0.0/0")), "0.0.0.0/0");
  EXPECT_EQ(format_cidr(*parse_cidr("1.2.3.4")), "1.2.3.4");
  for (const char* bad : {"", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.256", "1.2.3.4/33", "1.2.3.4/24",
                          "0x7f.0.0.1", "2130706433", "1.2.3.4/", "1.2.3.4/08", " 1.2.3.4", "::1"}) {
    EXPECT_FALSE(parse_cidr(bad)) << bad;
  }
}

TEST(SandboxId, HasTheShapeOfADnsLabel) {
  EXPECT_TRUE(valid_sandbox_id(new_sandbox_id()));
  for (const char* bad : {"", "i", "iABCDEFGHIJKLMNOPQRST", "x0123456789abcdefghij", "i0123456789abcdefghi.",
                          "../../../../../../../.."}) {
    EXPECT_FALSE(valid_sandbox_id(bad)) << bad;
  }
}

TEST(SnapshotId, CannotLeaveItsFolder) {
  EXPECT_TRUE(valid_snapshot_id(new_snapshot_id()));
  for (const char* bad : {"", "ABCDEFGHIJKLMNOPQRST", "0123456789abcdefghi.", "0123456789abcdefghi/",
                          "0123456789abcdefghij0", "..", "../../../../../../.."}) {
    EXPECT_FALSE(valid_snapshot_id(bad)) << bad;
  }
}

TEST(State, NamesRoundTrip) {
  for (State state : {State::kReady, State::kCreating, State::kRunning, State::kPaused, State::kFailed}) {
    EXPECT_EQ(parse_state(state_name(state)), state);
  }
  EXPECT_FALSE(parse_state("asleep"));
}

}  // namespace
}  // namespace atl::model
