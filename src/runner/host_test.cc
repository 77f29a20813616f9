// SPDX-License-Identifier: Apache-2.0
#include "runner/host.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>

#include "runner/gvisor/check.h"
#include "sys/features/features.h"

namespace atl::runner {
namespace {

using model::Feature;

std::uint8_t error_of(const model::HostFeatures& host, Feature feature) {
  return host.error[static_cast<std::size_t>(feature)];
}

// A row without a probe would never be missing, a probe without a row never be told.
TEST(HostFeatures, EachRowHasAProbeAndEachProbeARow) {
  std::set<std::string> rows, probes{"runsc", "runsc_recent", "runsc_starts", "qemu", "machine_starts"};
  for (const model::FeatureInfo& row : model::features()) rows.insert(row.name);
  for (const sys::FeatureProbe& probe : sys::feature_probes()) probes.insert(probe.name);
  EXPECT_EQ(rows, probes);
  EXPECT_FALSE(sys::try_feature("nonsense"));
}

TEST(HostFeatures, EverythingIsTriedAndThisMachineCanRunContainers) {
  model::HostFeatures host = try_host();
  for (const model::FeatureInfo& row : model::features()) {
    // What takes programs, found out later.
    bool later = row.feature == Feature::kRunsc || row.feature == Feature::kRunscRecent ||
                 row.feature == Feature::kRunscStarts || row.feature == Feature::kQemu ||
                 row.feature == Feature::kMachineStarts;
    EXPECT_EQ(error_of(host, row.feature) == model::kNotTried, later) << row.name;
  }
  EXPECT_EQ(model::obstacle(host, model::Tier::kContainer), "");
}

TEST(HostFeatures, GvisorIsMissingOldOrDoesNotStart) {
  struct Row {
    Result<void> found;
    std::optional<Result<void>> started;
    int runsc, recent, starts;
  };
  Error missing = make_error(Code::kNotFound, "there is none");
  Error old = make_error(Code::kUnsupported, "old").with_word(gvisor::kTooOld);
  Error refused = Error::from_errno(EPERM, "self-test");
  constexpr int kUnknown = model::kNotTried;
  for (const Row& row : {Row{missing, {}, ENOENT, kUnknown, kUnknown}, Row{old, {}, 0, ENOEXEC, kUnknown},
                         Row{success(), {}, 0, 0, kUnknown}, Row{success(), refused, 0, 0, EPERM},
                         Row{success(), success(), 0, 0, 0}}) {
    model::HostFeatures host = {};
    for (std::uint8_t& error : host.error) error = model::kNotTried;
    note_gvisor(host, row.found);
    if (row.started) note_gvisor_starts(host, *row.started);
    EXPECT_EQ(error_of(host, Feature::kRunsc), row.runsc);
    EXPECT_EQ(error_of(host, Feature::kRunscRecent), row.recent);
    EXPECT_EQ(error_of(host, Feature::kRunscStarts), row.starts);
  }
}

}  // namespace
}  // namespace atl::runner
