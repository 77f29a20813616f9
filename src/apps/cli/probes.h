// SPDX-License-Identifier: Apache-2.0
//
// What `atoll doctor` looks at. A probe does the thing it asks about, in a child that is thrown away where it
// would change something, and never trusts a version or the presence of a file.
#pragma once

#include <string>
#include <vector>

#include <boost/json/value.hpp>

#include "apps/cli/config.h"
#include "model/features.h"

namespace atl::cli {

struct Finding {
  enum class State { kOk, kWarning, kFailed, kSkipped };
  std::string name;  // "overlay file system"
  State state = State::kOk;
  std::string detail;  // what was found: "Landlock ABI 7", "mount: Operation not permitted"
  std::string remedy;  // what to do, empty when all is well
};
// "ok", "warning", "failed", "skipped": stable words of --json.
std::string_view state_word(Finding::State state);

// How one feature of the table stands. What the default tier needs and lacks is a failure.
Finding feature_finding(const model::FeatureInfo& row, std::uint8_t error, model::Tier default_tier);
// The tier of those who say nothing, where everything is as it should be.
model::Tier default_tier_of(const Config& config);

// Every feature of the table, tried here and now. Forks: call before there is a thread. Without root it is
// skipped.
std::vector<Finding> probe_kernel(const Config& config);
// Of the machine and the installation: programs, user, directories, disk space, ports.
std::vector<Finding> probe_machine(const Config& config);
// Which tiers are usable, and what the default one lacks, from the answer of GET /v1/host.
std::vector<Finding> host_findings(const boost::json::value& host);
// Takes over from GET /v1/host/posture what only the runner could try, and what it found missing when it
// started: that is what counts for sandboxes.
void merge_posture(std::vector<Finding>& findings, const boost::json::value& posture,
                   model::Tier default_tier);

}  // namespace atl::cli
