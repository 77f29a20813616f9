// SPDX-License-Identifier: Apache-2.0
#include "model/isolation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/overhead.h"

namespace atl::model {
namespace {

using Word = std::optional<IsolationWord>;

Word word(std::string_view text) { return text.empty() ? Word() : parse_isolation(text); }

TEST(Isolation, WordsAreTiersAndRisks) {
  struct Row {
    const char* text;
    Tier tier;
    bool risk;
  };
  for (const Row& row : {Row{"container", Tier::kContainer, false},
                         {"gvisor", Tier::kGvisor, false},
                         {"microvm", Tier::kMicrovm, false},
                         {"low", Tier::kContainer, true},
                         {"medium", Tier::kGvisor, true},
                         {"high", Tier::kMicrovm, true}}) {
    auto read = parse_isolation(row.text);
    ASSERT_TRUE(read) << row.text;
    EXPECT_EQ(read->tier, row.tier) << row.text;
    EXPECT_EQ(read->risk.has_value(), row.risk) << row.text;
    EXPECT_EQ(read->text(), row.text);
  }
  for (const char* text : {"", "auto", "Container", "HIGH", "gvisor ", "none", "lowest"})
    EXPECT_FALSE(parse_isolation(text)) << text;
}

struct Case {
  const char* isolation;
  const char* risk;
  const char* template_standard;
  const char* template_minimum;
  const char* tenant_standard;
  const char* tenant_minimum;
  Tier host;
  const char* demanded;
  Asker by;
};

constexpr Tier kC = Tier::kContainer, kG = Tier::kGvisor, kM = Tier::kMicrovm;

constexpr Case kCases[] = {
    // Nobody says anything: the host's default.
    {"", "", "", "", "", "", kC, "container", Asker::kHost},
    {"", "", "", "", "", "", kG, "gvisor", Asker::kHost},
    // A caller may ask for more and for less than the defaults.
    {"microvm", "", "", "", "", "", kC, "microvm", Asker::kCaller},
    {"container", "", "", "", "", "", kM, "container", Asker::kCaller},
    {"container", "", "gvisor", "", "microvm", "", kG, "container", Asker::kCaller},
    {"", "low", "high", "", "high", "", kG, "low", Asker::kCaller},
    // The stronger of a caller's own words wins, and a tier before an equal risk.
    {"container", "high", "", "", "", "", kC, "high", Asker::kCaller},
    {"gvisor", "low", "", "", "", "", kC, "gvisor", Asker::kCaller},
    {"gvisor", "medium", "", "", "", "", kC, "gvisor", Asker::kCaller},
    // Of two defaults the stronger one counts, and the host's only without either.
    {"", "", "gvisor", "", "", "", kC, "gvisor", Asker::kTemplate},
    {"", "", "container", "", "", "", kM, "container", Asker::kTemplate},
    {"", "", "container", "", "medium", "", kC, "medium", Asker::kTenant},
    {"", "", "high", "", "medium", "", kC, "high", Asker::kTemplate},
    {"", "", "gvisor", "", "gvisor", "", kC, "gvisor", Asker::kTemplate},
    // Nobody goes below a minimum.
    {"container", "", "", "gvisor", "", "", kC, "gvisor", Asker::kTemplateMinimum},
    {"container", "", "", "", "", "high", kC, "high", Asker::kTenantMinimum},
    {"container", "low", "low", "gvisor", "low", "microvm", kC, "microvm", Asker::kTenantMinimum},
    {"", "", "container", "", "", "medium", kC, "medium", Asker::kTenantMinimum},
    {"", "", "", "medium", "", "", kC, "medium", Asker::kTemplateMinimum},
    // A minimum weakens nothing.
    {"microvm", "", "", "container", "", "gvisor", kC, "microvm", Asker::kCaller},
    {"", "", "", "container", "", "container", kG, "gvisor", Asker::kHost},
    {"gvisor", "", "", "gvisor", "", "medium", kC, "gvisor", Asker::kCaller},
};

IsolationWishes wishes_of(const Case& row) {
  return {word(row.isolation),
          word(row.risk),
          {word(row.template_standard), word(row.template_minimum)},
          {word(row.tenant_standard), word(row.tenant_minimum)},
          row.host};
}

TEST(Isolation, WhoseWordWins) {
  for (const Case& row : kCases) {
    Demand demand = demand_of(wishes_of(row));
    EXPECT_EQ(demand.word.text(), row.demanded) << (&row - kCases);
    EXPECT_EQ(demand.by, row.by) << (&row - kCases);
  }
}

// Every combination there is: no word of those who may demand is ever weakened, and nothing stronger comes up
// than somebody said.
TEST(Isolation, NoCombinationIsWeakerThanAnyWhoMayDemand) {
  const char* const all[] = {"", "container", "gvisor", "microvm", "low", "medium", "high"};
  std::size_t count = 0;
  for (const char* isolation : {"", "container", "gvisor", "microvm"})
    for (const char* risk : {"", "low", "medium", "high"})
      for (const char* template_standard : all)
        for (const char* template_minimum : all)
          for (const char* tenant_standard : all)
            for (const char* tenant_minimum : all)
              for (Tier host : {kC, kG, kM}) {
                IsolationWishes wishes = wishes_of({isolation, risk, template_standard, template_minimum,
                                                    tenant_standard, tenant_minimum, host, "", Asker::kHost});
                Tier got = demand_of(wishes).word.tier;
                std::vector<Tier> said;
                for (const Word& one :
                     {wishes.isolation, wishes.risk, wishes.of_template.minimum, wishes.of_tenant.minimum}) {
                  if (one) said.push_back(one->tier);
                }
                for (Tier tier : said) ASSERT_GE(got, tier);
                if (wishes.isolation || wishes.risk) {
                  ASSERT_EQ(got, *std::max_element(said.begin(), said.end()));
                } else if (!wishes.of_template.standard && !wishes.of_tenant.standard) {
                  said.push_back(host);
                  ASSERT_EQ(got, *std::max_element(said.begin(), said.end()));
                } else {
                  for (const Word& one : {wishes.of_template.standard, wishes.of_tenant.standard}) {
                    if (!one) continue;
                    ASSERT_GE(got, one->tier);
                    said.push_back(one->tier);
                  }
                  ASSERT_EQ(got, *std::max_element(said.begin(), said.end()));
                }
                ++count;
              }
  EXPECT_EQ(count, 4u * 4u * 7u * 7u * 7u * 7u * 3u);
}

TEST(Isolation, OnlyStrongerTiersStandIn) {
  EXPECT_EQ(acceptable(kC), (std::vector{kC, kG, kM}));
  EXPECT_EQ(acceptable(kG), (std::vector{kG, kM}));
  EXPECT_EQ(acceptable(kM), (std::vector{kM}));
}

TEST(Isolation, TheHostsDefault) {
  for (const char* text : {"container", "gvisor", "microvm", "auto"}) {
    auto setting = parse_host_default(text);
    ASSERT_TRUE(setting) << text;
    EXPECT_EQ(host_default_name(*setting), text);
  }
  for (const char* text : {"", "high", "best", "Auto"}) EXPECT_FALSE(parse_host_default(text)) << text;
  EXPECT_EQ(default_tier(*parse_host_default("auto"), true), kG);
  EXPECT_EQ(default_tier(*parse_host_default("auto"), false), kC);
  // A tier that was named stays, usable or not: then creates are refused.
  EXPECT_EQ(default_tier(*parse_host_default("gvisor"), false), kG);
  EXPECT_EQ(default_tier(HostDefault{}, true), kG) << "what a host says that was told nothing";
  EXPECT_EQ(default_tier(HostDefault{}, false), kC);
}

TEST(Overhead, IsThatOfTheRuntimeOfTheTier) {
  constexpr std::uint64_t kNoKvm = 1ull << static_cast<unsigned>(Feature::kKvm);
  EXPECT_EQ(overhead_of(kC, 0), Overhead());
  EXPECT_GT(overhead_of(kG, 0).memory_bytes, 0u);
  EXPECT_GT(overhead_of(kM, 0).memory_bytes, overhead_of(kG, 0).memory_bytes);
  EXPECT_GT(overhead_of(kM, kNoKvm).memory_bytes, overhead_of(kM, 0).memory_bytes);
  EXPECT_EQ(overhead_of(kG, kNoKvm), overhead_of(kG, 0));
}

}  // namespace
}  // namespace atl::model
