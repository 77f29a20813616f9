// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "model/runner_protocol.h"
#include "model/sandbox.h"
#include "model/slot_address.h"

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

TEST(Labels, HaveAddressesThatSayWhoseTheyAre) {
  std::set<Ipv4> seen;
  for (std::uint32_t slot : {0u, 1u, 15u, 16u, 255u, 4095u}) {
    for (std::uint32_t label = 0; label <= kMaxLabels; ++label) {
      Ipv4 address = label == 0 ? alias_address(slot) : label_alias(slot, label);
      EXPECT_TRUE(seen.insert(address).second);
      auto sender = sender_of(address);
      ASSERT_TRUE(sender);
      EXPECT_EQ(sender->slot, slot);
      EXPECT_EQ(sender->label, label);
    }
    EXPECT_FALSE(sender_of(label_alias(slot, 0)));
    EXPECT_FALSE(sender_of(host_address(slot)));
  }
  EXPECT_FALSE(sender_of({100, 97, 0, 1}));
  EXPECT_FALSE(sender_of({101, 96, 0, 1}));
}

TEST(Labels, AreNamesAsInRules) {
  for (const char* good : {"git", "A-b_c.9", "x"}) EXPECT_TRUE(valid_label(good)) << good;
  for (const std::string& bad :
       {std::string(), std::string(65, 'a'), std::string("a b"), std::string("a/b"), std::string("a\0", 2)})
    EXPECT_FALSE(valid_label(bad)) << bad;
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
