// SPDX-License-Identifier: Apache-2.0
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>

#include "apps/cli/probes.h"
#include "model/features.h"
#include "model/isolation.h"
#include "model/machine.h"
#include "sys/features/features.h"

namespace atl::cli {
namespace {

using State = Finding::State;
using model::Feature;

Finding kernel_version() {
  utsname name{};
  ::uname(&name);
  return {"kernel", State::kOk, fmt::format("{} {} {}", name.sysname, name.release, name.machine), ""};
}

std::string concerned(const model::FeatureInfo& row) {
  std::string out;
  model::Tiers tiers = row.needed | row.used;
  for (model::Tier tier : {model::Tier::kContainer, model::Tier::kGvisor, model::Tier::kMicrovm}) {
    if ((tiers & model::tiers_of(tier)) == 0) continue;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", model::tier_name(tier));
  }
  return fmt::format("{} {}", row.needed != 0 ? "needed by" : "used by", out);
}

// nullopt: only a running runner can tell.
std::optional<int> attempt(const model::FeatureInfo& row, const Config& config) {
  if (row.feature == Feature::kRunsc) return sys::find_program("runsc") ? 0 : ENOENT;
  if (row.feature == Feature::kQemu) {
    std::string image = fmt::format("{}/{}/{}", config.data_dir, model::kMachineFolder, model::kMachineImage);
    return ::access(image.c_str(), F_OK) == 0 ? 0 : ENOENT;
  }
  return sys::try_feature(row.name);
}

}  // namespace

std::string_view state_word(State state) {
  switch (state) {
    case State::kOk: return "ok";
    case State::kWarning: return "warning";
    case State::kFailed: return "failed";
    case State::kSkipped: return "skipped";
  }
  return "failed";
}

Finding feature_finding(const model::FeatureInfo& row, std::uint8_t error, model::Tier default_tier) {
  std::string what = fmt::format("{}, {}", row.title, concerned(row));
  if (error == 0) return {row.name, State::kOk, what, ""};
  if (error == model::kNotTried)
    return {row.name, State::kSkipped, what + ": not tried",
            "it is tried when Atoll starts here and finds what that takes"};
  bool fatal = (row.needed & model::tiers_of(default_tier)) != 0;
  return {row.name, fatal ? State::kFailed : State::kWarning,
          fmt::format("{}: {}", what, model::feature_error(error)), row.remedy};
}

model::Tier default_tier_of(const Config& config) {
  auto setting = model::parse_host_default(config.default_isolation).value_or(model::HostDefault());
  return model::default_tier(setting, false);  // `auto` works wherever container does
}

std::vector<Finding> probe_kernel(const Config& config) {
  std::vector<Finding> out{kernel_version()};
  if (::geteuid() != 0) {
    out.push_back({"features", State::kSkipped, "trying them needs root", "run 'sudo atoll doctor'"});
    return out;
  }
  for (const model::FeatureInfo& row : model::features()) {
    int number = attempt(row, config).value_or(model::kNotTried);
    out.push_back(feature_finding(row, static_cast<std::uint8_t>(number), default_tier_of(config)));
  }
  return out;
}

}  // namespace atl::cli
