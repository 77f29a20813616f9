// SPDX-License-Identifier: Apache-2.0
//
// RuleBook: the rules of the operator, of tenants and of templates, on disk and in memory. What is in it was
// read and found good; what is not good changes nothing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gateway/policy/rule.h"
#include "store/database.h"

namespace atl::gateway {

// One set of rules: of the operator (without a name), of a tenant or a template by its id. A trial (shadow)
// stands beside the one in force.
struct RuleKey {
  policy::Source author = policy::Source::kOperator;
  std::string name;
  bool trial = false;
  auto operator<=>(const RuleKey&) const = default;
};
struct KeptRules {
  std::string text;  // as it was given
  WallTime updated_at;
  policy::RuleSet set;
};

// Use from one loop.
class RuleBook {
 public:
  static constexpr std::size_t kMostSets = 10'000;

  // Opens or makes the file. Blocking. kCorrupt when rules in it cannot be read: without them nothing may
  // leave.
  static Result<std::unique_ptr<RuleBook>> open(const std::string& path, const Clock& clock);

  // For a sandbox of this tenant and template.
  std::vector<policy::RuleSet> above(const std::string& tenant, const std::string& template_id) const;
  const std::map<RuleKey, KeptRules>& all() const { return kept_; }

  // Replaces the set of this author and name, or its trial when `text` says that it is one; of the operator's
  // there is one, in force or a trial. In force and on disk when it returns. kInvalid names the place, and
  // then nothing has changed.
  async::Task<Result<void>> set(policy::Source author, std::string name, std::string text);
  // kNotFound when there is none.
  async::Task<Result<void>> remove(RuleKey key);
  // The operator's, before the loop runs; empty: there is none any more. Blocking.
  Result<void> begin_operator(const std::string& text);

  // Called with the author and name of each set that has changed, before the change is answered.
  void on_change(std::function<void(policy::Source, const std::string& name)> call) {
    changed_ = std::move(call);
  }

 private:
  RuleBook(std::unique_ptr<store::Database> db, const Clock& clock) : db_(std::move(db)), clock_(clock) {}
  Result<void> load();
  void take(const RuleKey& key, KeptRules rules);

  std::unique_ptr<store::Database> db_;
  const Clock& clock_;
  std::map<RuleKey, KeptRules> kept_;
  std::function<void(policy::Source, const std::string&)> changed_ = [](policy::Source, const std::string&) {
  };
};

}  // namespace atl::gateway
