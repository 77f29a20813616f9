// SPDX-License-Identifier: Apache-2.0
//
// What docs/guides/policy.md shows is true: its rules and conditions are read.
#include <gtest/gtest.h>

#include <fstream>

#include "base/text.h"
#include "gateway/policy/policy.h"

namespace atl::gateway::policy {
namespace {

// The blocks of code that begin with this fence.
std::vector<std::string> blocks(const std::string& fence) {
  std::ifstream in(ATOLL_POLICY_GUIDE);
  std::vector<std::string> out;
  bool inside = false, wanted = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      wanted = inside && line == fence;
      if (wanted) out.emplace_back();
    } else if (wanted) {
      out.back() += line + "\n";
    }
  }
  return out;
}

TEST(Guide, ItsRulesAreRead) {
  auto shown = blocks("```json");
  ASSERT_FALSE(shown.empty());
  for (const std::string& text : shown) {
    auto set = parse_rule_set(text, Source::kSandbox);
    ASSERT_TRUE(set.ok()) << set.error().message();
    auto policy = Policy::compile({*std::move(set)}).value();
    EXPECT_TRUE(policy->notes().empty());
    EXPECT_TRUE(policy->may_resolve("api.model.example", ""));
  }
}

TEST(Guide, ItsConditionsAreRead) {
  auto shown = blocks("```");
  ASSERT_FALSE(shown.empty());
  std::size_t count = 0;
  for (const std::string& text : shown) {
    for (auto line : split(trim(text), '\n')) {
      if (line.empty()) continue;
      auto condition = Expression::compile(line);
      EXPECT_TRUE(condition.ok()) << line << ": " << condition.error().message();
      ++count;
    }
  }
  EXPECT_GE(count, 3u);
}

}  // namespace
}  // namespace atl::gateway::policy
