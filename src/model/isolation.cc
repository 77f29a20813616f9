// SPDX-License-Identifier: Apache-2.0
#include "model/isolation.h"

namespace atl::model {

std::string_view risk_name(Risk risk) {
  switch (risk) {
    case Risk::kLow: return "low";
    case Risk::kMedium: return "medium";
    case Risk::kHigh: return "high";
  }
  return "unknown";
}

std::optional<Risk> parse_risk(std::string_view name) {
  for (Risk risk : {Risk::kLow, Risk::kMedium, Risk::kHigh}) {
    if (risk_name(risk) == name) return risk;
  }
  return std::nullopt;
}

Tier tier_for(Risk risk) {
  switch (risk) {
    case Risk::kLow: return Tier::kContainer;
    case Risk::kMedium: return Tier::kGvisor;
    case Risk::kHigh: return Tier::kMicrovm;
  }
  return Tier::kMicrovm;
}

std::optional<IsolationWord> parse_isolation(std::string_view text) {
  if (auto tier = parse_tier(text)) return IsolationWord(*tier);
  if (auto risk = parse_risk(text)) return IsolationWord(*risk);
  return std::nullopt;
}

std::string_view asker_name(Asker asker) {
  switch (asker) {
    case Asker::kHost: return "host";
    case Asker::kCaller: return "caller";
    case Asker::kTemplate: return "template";
    case Asker::kTenant: return "tenant";
    case Asker::kTemplateMinimum: return "template_minimum";
    case Asker::kTenantMinimum: return "tenant_minimum";
    case Asker::kSnapshot: return "snapshot";
  }
  return "unknown";
}

Demand demand_of(const IsolationWishes& wishes) {
  std::optional<Demand> found;
  auto hear = [&found](const std::optional<IsolationWord>& word, Asker by) {
    if (word && (!found || word->tier > found->word.tier)) found = Demand{*word, by};
  };
  hear(wishes.isolation, Asker::kCaller);
  hear(wishes.risk, Asker::kCaller);
  if (!found) {
    hear(wishes.of_template.standard, Asker::kTemplate);
    hear(wishes.of_tenant.standard, Asker::kTenant);
  }
  if (!found) hear(IsolationWord(wishes.host), Asker::kHost);
  hear(wishes.of_template.minimum, Asker::kTemplateMinimum);
  hear(wishes.of_tenant.minimum, Asker::kTenantMinimum);
  return *found;
}

std::vector<Tier> acceptable(Tier wanted) {
  std::vector<Tier> out;
  for (Tier tier : {Tier::kContainer, Tier::kGvisor, Tier::kMicrovm}) {
    if (tier >= wanted) out.push_back(tier);
  }
  return out;
}

std::optional<HostDefault> parse_host_default(std::string_view text) {
  if (text == kAutoIsolation) return HostDefault{std::nullopt};
  if (auto tier = parse_tier(text)) return HostDefault{tier};
  return std::nullopt;
}

std::string_view host_default_name(const HostDefault& setting) {
  return setting.tier ? tier_name(*setting.tier) : kAutoIsolation;
}

Tier default_tier(const HostDefault& setting, bool gvisor_usable) {
  if (setting.tier) return *setting.tier;
  return gvisor_usable ? Tier::kGvisor : Tier::kContainer;
}

}  // namespace atl::model
