// SPDX-License-Identifier: Apache-2.0
//
// The rule by which a sandbox gets its tier: who may demand isolation, whose word wins, and which tier may
// stand in for another. Plain data and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/sandbox.h"

namespace atl::model {

// How much harm the code in a sandbox is expected to do. Each one names the weakest tier that is fit for it:
// low container, medium gvisor, high microvm.
enum class Risk : std::uint8_t { kLow = 1, kMedium = 2, kHigh = 3 };
std::string_view risk_name(Risk risk);
std::optional<Risk> parse_risk(std::string_view name);
Tier tier_for(Risk risk);

// One word about isolation, as it was said: a tier or a risk.
struct IsolationWord {
  Tier tier = Tier::kContainer;
  std::optional<Risk> risk;  // none: the tier itself was named

  IsolationWord() = default;
  explicit IsolationWord(Tier named) : tier(named) {}
  explicit IsolationWord(Risk named) : tier(tier_for(named)), risk(named) {}
  std::string_view text() const { return risk ? risk_name(*risk) : tier_name(tier); }
  bool operator==(const IsolationWord&) const = default;
};
// "gvisor" or "medium"; nullopt for anything else.
std::optional<IsolationWord> parse_isolation(std::string_view text);

// What a template or a tenant says: a default for those who say nothing, and a minimum for everybody.
struct IsolationRule {
  std::optional<IsolationWord> standard;
  std::optional<IsolationWord> minimum;
  bool operator==(const IsolationRule&) const = default;
};

// Whose word it was that won. The numbers are stored.
enum class Asker : std::uint8_t {
  kHost = 0,
  kCaller = 1,
  kTemplate = 2,
  kTenant = 3,
  kTemplateMinimum = 4,
  kTenantMinimum = 5,
  kSnapshot = 6,  // the one it starts from, which exists in one tier only
};
std::string_view asker_name(Asker asker);  // "template_minimum"

// What is asked for in the end: nothing weaker may be given.
struct Demand {
  IsolationWord word;
  Asker by = Asker::kHost;
  bool operator==(const Demand&) const = default;
};

// Everything that was said about one sandbox.
struct IsolationWishes {
  std::optional<IsolationWord> isolation;  // by the caller
  std::optional<IsolationWord> risk;       // by the caller
  IsolationRule of_template;
  IsolationRule of_tenant;
  Tier host = Tier::kContainer;  // for those about whom nobody said anything
};

// The strongest of the caller's words; without any, the stronger one of the two defaults; without any, the
// host's. A minimum that is stronger than that wins. Of equally strong words the first in this order wins.
Demand demand_of(const IsolationWishes& wishes);

// What may be given for `wanted`: it and all stronger ones, the weakest first. Nothing weaker is ever in it.
std::vector<Tier> acceptable(Tier wanted);

// The host's default: one tier, or gvisor where it is usable and container elsewhere.
struct HostDefault {
  std::optional<Tier> tier;  // none: `auto`
  bool operator==(const HostDefault&) const = default;
};
inline constexpr std::string_view kAutoIsolation = "auto";
std::optional<HostDefault> parse_host_default(std::string_view text);
std::string_view host_default_name(const HostDefault& setting);
Tier default_tier(const HostDefault& setting, bool gvisor_usable);

}  // namespace atl::model
