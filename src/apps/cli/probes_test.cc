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
       {R"({"isolation":[],"missingLayers":[]})", R"({"isolation":["gvisor"]})", "{}", "null"}) {
    EXPECT_EQ(found(text).front().state, State::kFailed) << text;
  }
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
