// SPDX-License-Identifier: Apache-2.0
//
// Which tier a sandbox gets: the rule is model/isolation's; here are those who have a say in it.
#include "base/patience.h"
#include "control/service_impl.h"

namespace atl::control {
namespace {

constexpr std::string_view kBeingTested = "isolation_being_tested";

Error isolation_being_tested(model::Tier tier) {
  return make_error(Code::kUnavailable, "this host is still being tested for isolation '{}'",
                    model::tier_name(tier))
      .with_word(std::string(kBeingTested))
      .with_hint("try again in a moment; the test runs once after the runner's start");
}

Error isolation_unavailable(const model::Demand& demand, const std::string& why) {
  return make_error(Code::kUnavailable, "isolation '{}' is not available: {}", demand.word.text(), why)
      .with_word("isolation_unavailable")
      .with_hint("'atoll doctor' shows which check fails; a weaker tier is never used instead");
}

std::string obstacle_of(const wire::HelloReply& hello, model::Tier tier) {
  std::string why = hello.obstacle[static_cast<std::size_t>(tier)].str();
  return fmt::format("{}: {}", model::tier_name(tier),
                     why.empty() ? "this host's runner does not offer it" : why);
}

// Its wall is QEMU's translator, which is none: who asked for it by name knows that, others did not ask for
// it.
bool emulated(const wire::HelloReply& hello, model::Tier tier) {
  return (model::missing_layers(hello.features, tier) >> static_cast<unsigned>(model::Feature::kKvm) & 1) !=
         0;
}

}  // namespace

bool SandboxService::usable(model::Tier tier) const {
  return runner_.connected() && (runner_.hello().tiers & model::tiers_of(tier)) != 0;
}

Result<void> SandboxService::require_runner() const {
  if (runner_.connected()) return {};
  return make_error(Code::kUnavailable, "the runner is not reachable, so no sandbox can be started")
      .with_word("runner_unavailable")
      .with_hint("check that atoll-runner runs (atoll status); sandboxes that run already are not affected");
}

// For what has its tier already.
Result<void> SandboxService::require_tier(model::Tier tier) const {
  TRY_VOID(require_runner());
  if (usable(tier)) return {};
  if (being_tested(tier)) return isolation_being_tested(tier);
  return isolation_unavailable({model::IsolationWord(tier), model::Asker::kHost},
                               obstacle_of(runner_.hello(), tier));
}

// What is being tested is neither usable nor not: nobody gets a weaker one for want of patience.
bool SandboxService::being_tested(model::Tier tier) const {
  return runner_.connected() && (runner_.hello().tested_tiers & model::tiers_of(tier)) != 0;
}

// Repeats `check` while it fails for want of a test that the runner has not ended, within test_patience.
Task<Result<void>> SandboxService::when_tested(std::function<Result<void>()> check) {
  auto until = Steady::now() + patient(options_.test_patience);
  while (true) {
    Result<void> checked = check();
    if (checked.ok() || checked.error().word() != kBeingTested || stopping_) co_return checked;
    bool changed = co_await host_changed_.wait_until(until);
    if (!changed) co_return checked;
  }
}

// By the last runner, when it is away.
model::Tier SandboxService::host_tier() const {
  const wire::HelloReply& hello = runner_.hello();
  model::Tiers hoped_for = hello.tiers | hello.tested_tiers;
  return model::default_tier(options_.default_isolation, (hoped_for & model::kGvisorTier) != 0);
}

model::Demand SandboxService::demand_for(const CreateSpec& spec,
                                         const model::IsolationRule& of_template) const {
  model::IsolationWishes wishes{spec.isolation, spec.risk, of_template, {}, host_tier()};
  if (const model::Tenant* tenant = identity_.find_tenant(spec.tenant)) wishes.of_tenant = tenant->isolation;
  return model::demand_of(wishes);
}

// The weakest usable tier that is as strong as what was asked for. An error names the failing check of each
// one that was tried.
Result<model::Tier> SandboxService::choose_tier(const model::Demand& demand) const {
  TRY_VOID(require_runner());
  std::string tried;
  for (model::Tier tier : model::acceptable(demand.word.tier)) {
    if (being_tested(tier)) return isolation_being_tested(tier);
    bool stand_in = tier != demand.word.tier;
    bool kept_out = stand_in && usable(tier) && emulated(runner_.hello(), tier);
    if (usable(tier) && !kept_out) return tier;
    std::string why = kept_out ? fmt::format("{}: it is only emulated, so it stands in for no other tier",
                                             model::tier_name(tier))
                               : obstacle_of(runner_.hello(), tier);
    tried += (tried.empty() ? "" : "; ") + why;
  }
  return isolation_unavailable(demand, tried);
}

// A copy of a disk exists in one tier only. That is what those get who say nothing; defaults do not matter
// for it, minimums do.
Result<model::Demand> SandboxService::demand_on(const model::Snapshot& row, const CreateSpec& spec) const {
  model::IsolationWishes wishes{spec.isolation, spec.risk, {}, {}, row.tier};
  if (const model::Tenant* tenant = identity_.find_tenant(spec.tenant))
    wishes.of_tenant.minimum = tenant->isolation.minimum;
  auto base = catalog_.all().find(row.build.template_id);
  if (base != catalog_.all().end()) wishes.of_template.minimum = base->second.isolation.minimum;
  model::Demand demand = model::demand_of(wishes);
  if (demand.by == model::Asker::kHost) demand.by = model::Asker::kSnapshot;
  if (demand.word.tier <= row.tier) return demand;
  return make_error(Code::kInvalid,
                    "its disk is of isolation '{}', which is weaker than '{}' asked for by {}",
                    model::tier_name(row.tier), demand.word.text(), model::asker_name(demand.by))
      .with_word("isolation_unavailable")
      .with_hint("ask for the isolation that it was made with, or start from a template");
}

// What callers who say nothing get of this template, whoever they are. While the runner is away it is what
// they would ask for, so that nothing is replaced for that.
model::Tier SandboxService::pool_tier(const model::Template& base) const {
  model::Demand demand = model::demand_of({std::nullopt, std::nullopt, base.isolation, {}, host_tier()});
  auto chosen = choose_tier(demand);
  return chosen ? *chosen : demand.word.tier;
}

// Of one that is to be started here.
Amounts SandboxService::amounts_for(model::Tier tier, const model::Limits& limits) const {
  std::uint64_t missing = model::missing_layers(runner_.hello().features, tier);
  return amounts_of(limits, model::overhead_of(tier, missing));
}

// At every contact with a runner, since another one may find the host changed.
void SandboxService::tell_default() const {
  model::Tier tier = host_tier();
  if (!options_.default_isolation.tier && tier == model::Tier::kContainer) {
    log::warn(
        "DEGRADED: tier gvisor is not usable, so sandboxes for which nobody asks for more share this host's "
        "kernel",
        {{"default_isolation", "auto"},
         {"in_force", model::tier_name(tier)},
         {"why", obstacle_of(runner_.hello(), model::Tier::kGvisor)}});
  }
  if (!usable(tier) && !being_tested(tier)) {
    log::warn("the default tier is not usable: creates are refused, or given a stronger one",
              {{"default", model::tier_name(tier)}, {"why", obstacle_of(runner_.hello(), tier)}});
  }
  std::uint64_t missing = model::missing_layers(runner_.hello().features, tier);
  for (const model::FeatureInfo& row : model::features()) {
    if (missing >> static_cast<unsigned>(row.feature) & 1)
      log::warn("a layer of defence is missing", {{"layer", row.name}, {"remedy", row.remedy}});
  }
}

}  // namespace atl::control
