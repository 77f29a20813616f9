// SPDX-License-Identifier: Apache-2.0
#include "model/features.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>

namespace atl::model {
namespace {

HostFeatures without(Feature feature, int error) {
  HostFeatures host{};
  host.error[static_cast<std::size_t>(feature)] = static_cast<std::uint8_t>(error);
  return host;
}

TEST(Features, EachIsInTheTableOnceAndSaysWhatToDo) {
  std::set<std::string> names;
  std::set<Feature> seen;
  for (const FeatureInfo& row : features()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(seen.insert(row.feature).second) << row.name;
    EXPECT_NE(std::string(row.title), "") << row.name;
    EXPECT_NE(std::string(row.remedy), "") << row.name;
    EXPECT_NE(row.needed | row.used, 0) << row.name << " concerns no tier";
    EXPECT_EQ(row.needed & row.used, 0) << row.name << " is needed or not, not both";
    EXPECT_TRUE(!row.layer || row.used != 0) << row.name;
    EXPECT_EQ(&info(row.feature), &row);
  }
  // Three numbers stand for nothing any more.
  EXPECT_EQ(seen.size(), kFeatures - 3);
}

// For every feature and tier: a host without it refuses the tier, or says which layer is missing, or the
// tier does not care. There is no fourth way.
TEST(Features, WhatIsMissingRefusesTheTierOrIsTold) {
  for (const FeatureInfo& row : features()) {
    HostFeatures host = without(row.feature, ENOSYS);
    for (Tier tier : {Tier::kContainer, Tier::kGvisor, Tier::kMicrovm}) {
      std::string why = obstacle(host, tier);
      bool needed = (row.needed & tiers_of(tier)) != 0;
      EXPECT_EQ(!why.empty(), needed) << row.name << " " << tier_name(tier);
      if (needed) {
        EXPECT_NE(why.find(row.name), std::string::npos) << why;
        EXPECT_NE(why.find("Function not implemented"), std::string::npos) << why;
        EXPECT_NE(why.find(row.remedy), std::string::npos) << why;
      }
      bool layer = row.layer && (row.used & tiers_of(tier)) != 0;
      EXPECT_EQ(missing_layers(host, tier), layer ? 1ull << static_cast<unsigned>(row.feature) : 0)
          << row.name << " " << tier_name(tier);
    }
  }
}

// What every sandbox goes through before its first program, a QEMU no less than others.
TEST(Features, NoTierStartsWithoutTheStepsThatAllShare) {
  for (Feature feature : {Feature::kUserNamespaces, Feature::kMountNamespaces, Feature::kPidNamespaces,
                          Feature::kNetworkNamespaces, Feature::kIpcNamespaces, Feature::kUtsNamespaces,
                          Feature::kCgroupNamespaces, Feature::kSetns, Feature::kPivotRoot,
                          Feature::kCloseRange, Feature::kKeyrings}) {
    EXPECT_EQ(info(feature).needed, kContainerTier | kGvisorTier | kMicrovmTier) << info(feature).name;
  }
}

TEST(Features, WhatNobodyTriedIsNoObstacleButNeverCountsAsThere) {
  HostFeatures host = without(Feature::kSeccomp, kNotTried);
  EXPECT_EQ(obstacle(host, Tier::kContainer), "");
  EXPECT_FALSE(works(host, Feature::kSeccomp));
  EXPECT_NE(missing_layers(without(Feature::kLandlock, kNotTried), Tier::kContainer), 0u);
  EXPECT_EQ(feature_error(kNotTried), "not tried");
}

TEST(Features, AWholeHostHasNoObstacle) {
  HostFeatures host{};
  for (Tier tier : {Tier::kContainer, Tier::kGvisor, Tier::kMicrovm}) {
    EXPECT_EQ(obstacle(host, tier), "");
    EXPECT_EQ(missing_layers(host, tier), 0u);
  }
}

}  // namespace
}  // namespace atl::model
