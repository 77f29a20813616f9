// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/probes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace atl::cli {
namespace {

using State = Finding::State;

std::vector<Finding> found(const char* text) { return host_findings(boost::json::parse(text)); }

TEST(HostFindings, AllInForceIsOk) {
  for (const Finding& finding : found(R"({"isolation":["container"],"missingLayers":[]})")) {
    EXPECT_EQ(finding.state, State::kOk) << finding.name;
    EXPECT_EQ(finding.remedy, "");
  }
}

TEST(HostFindings, AMissingLayerIsAWarningWithItsName) {
  auto findings = found(R"({"isolation":["container"],"missingLayers":["landlock"]})");
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[1].state, State::kWarning);
  EXPECT_THAT(findings[1].detail, testing::HasSubstr("landlock"));
  EXPECT_NE(findings[1].remedy, "");
}

TEST(HostFindings, WithoutTheDefaultTierTheMachineIsUnfit) {
  for (const char* text :
       {R"({"isolation":[],"missingLayers":[]})", R"({"isolation":["gvisor"]})", "{}", "null",
        R"({"isolation":["container"],"defaultInForce":"gvisor","unusable":{"gvisor":"no runsc"}})"}) {
    EXPECT_EQ(found(text).front().state, State::kFailed) << text;
  }
}

TEST(HostFindings, AWeakDefaultIsTold) {
  auto findings = found(
      R"({"isolation":["container"],"defaultInForce":"container","degraded":true,
          "unusable":{"gvisor":"no runsc"}})");
  auto state_of = [&](std::string_view name) {
    for (const Finding& finding : findings) {
      if (finding.name == name) return finding.state;
    }
    return State::kOk;
  };
  EXPECT_EQ(state_of("default isolation"), State::kWarning);
  EXPECT_EQ(state_of("tier gvisor"), State::kWarning);
  EXPECT_EQ(findings.front().state, State::kOk);
}

TEST(HostFindings, ATierThatIsBeingTestedIsNoFailure) {
  auto findings =
      found(R"({"isolation":["container"],"beingTested":["gvisor","microvm"],"defaultInForce":"gvisor"})");
  ASSERT_GE(findings.size(), 3u);
  EXPECT_EQ(findings[0].name, "tier gvisor");
  EXPECT_EQ(findings[0].state, State::kSkipped);
  EXPECT_THAT(findings[0].detail, testing::HasSubstr("being tested"));
  EXPECT_EQ(findings[1].state, State::kOk);
  EXPECT_EQ(findings[2].name, "tier microvm");
  EXPECT_EQ(findings[2].state, State::kSkipped);
}

TEST(FeatureFindings, FailWhereTheDefaultTierNeedsThem) {
  const model::FeatureInfo& runsc = model::info(model::Feature::kRunsc);
  EXPECT_EQ(feature_finding(runsc, 0, model::Tier::kGvisor).state, State::kOk);
  EXPECT_EQ(feature_finding(runsc, 2, model::Tier::kGvisor).state, State::kFailed);
  EXPECT_EQ(feature_finding(runsc, 2, model::Tier::kContainer).state, State::kWarning);
  EXPECT_EQ(feature_finding(runsc, model::kNotTried, model::Tier::kGvisor).state, State::kSkipped);
  EXPECT_EQ(feature_finding(model::info(model::Feature::kLandlock), 38, model::Tier::kContainer).state,
            State::kWarning);
}

TEST(Posture, TheRunnersFindingsCount) {
  std::vector<Finding> findings{{"seccomp", State::kOk, "", ""},
                                {"runsc_starts", State::kSkipped, "", ""},
                                {"runsc", State::kWarning, "not in PATH", ""}};
  merge_posture(findings, boost::json::parse(R"({"features":[
      {"name":"seccomp","present":false,"error":"Function not implemented"},
      {"name":"runsc_starts","present":true},
      {"name":"runsc","present":true},{"name":"new_one","present":false}]})"),
                model::Tier::kContainer);
  EXPECT_EQ(findings[0].state, State::kFailed);
  EXPECT_THAT(findings[0].detail, testing::HasSubstr("Function not implemented"));
  EXPECT_EQ(findings[1].state, State::kOk);
  EXPECT_EQ(findings[2].state, State::kOk) << "the runner was given one";
  EXPECT_EQ(findings.size(), 3u);
}

// Runs as whoever runs the tests: what needs root is skipped then, and never called fine.
TEST(KernelProbes, NothingFailsSilently) {
  for (const Finding& finding : probe_kernel(Config{})) {
    EXPECT_FALSE(finding.detail.empty()) << finding.name;
    if (finding.state != State::kOk) EXPECT_FALSE(finding.remedy.empty()) << finding.name;
  }
}

}  // namespace
}  // namespace atl::cli
