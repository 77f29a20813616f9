// SPDX-License-Identifier: Apache-2.0
//
// All that the fronts and the pipeline work with, in a folder of its own, for tests.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "base/random.h"
#include "gateway/flow/credentials.h"
#include "gateway/flow/parts.h"
#include "gateway/policy/policy.h"
#include "gateway/policy/rule.h"
#include "gateway/upstream/world_for_test.h"
#include "gateway/vault/sealing.h"

namespace atl::gateway::testing {

// Of a sandbox with these rules: the "rules" of a set whose default is deny.
inline std::shared_ptr<const policy::Policy> policy_of(const char* rules) {
  boost::json::object set{{"version", 1}, {"default", "deny"}, {"rules", boost::json::parse(rules)}};
  std::vector<policy::RuleSet> sets{policy::read_rule_set(set, policy::Source::kSandbox).value()};
  return policy::Policy::compile(std::move(sets)).value();
}

inline Sandbox sandbox_with(const char* rules) {
  Sandbox out;
  out.id = "isandbox";
  out.tenant = "acme";
  out.template_id = "base";
  out.generation = 1;
  out.slot = 1;
  out.policy = policy_of(rules);
  return out;
}

class PartsWorld {
 public:
  World world;

 private:
  std::string folder_ = [] {
    auto path = std::filesystem::temp_directory_path() / ("atoll-parts-" + random_hex(8));
    std::filesystem::create_directories(path);
    return path.string();
  }();
  static Task<Result<vault::TokenAnswer>> no_tokens(vault::TokenRequest) {
    co_return make_error(Code::kUnavailable, "no token endpoint here");
  }
  async::Executor executor() { return world.loop.get_executor(); }
  std::string file(const char* name) const { return folder_ + "/" + name; }
  static vault::Locked key() { return vault::Locked::copy_of(std::string(vault::kKeyBytes, 'k')); }

  ManualClock clock_;
  Registry registry_;
  Flows flows_{executor(), registry_};
  Events events_{clock_};
  std::unique_ptr<Names> names_ = Names::open(file("names.db"), "a secret of 16 bytes or more").value();
  Authorities authorities_{std::string(32, 'a'), clock_};
  Interceptor interceptor_{clock_};
  std::unique_ptr<vault::Vault> vault_ = vault::Vault::open(file("vault.db"), key(), clock_).value();
  vault::Minter minter_{executor(), *vault_, no_tokens, clock_};
  ClientIdentities identities_;
  PatternCache patterns_;
  std::unique_ptr<Rates> rates_ = Rates::open(file("rates.db"), clock_).value();
  std::unique_ptr<Approvals> approvals_ =
      Approvals::open(executor(), file("approvals.db"), registry_, clock_).value();
  std::unique_ptr<token::Tokens> tokens_ = token::Tokens::open(file("tokens.db"), key(), clock_).value();
  vault::Locked placeholder_root_ = key();

 public:
  Parts parts{registry_,      flows_,   events_,           *names_,     authorities_, interceptor_,
              world.upstream, *vault_,  minter_,           identities_, patterns_,    *rates_,
              *approvals_,    *tokens_, placeholder_root_, clock_};

  PartsWorld() = default;
  PartsWorld(const PartsWorld&) = delete;
  PartsWorld& operator=(const PartsWorld&) = delete;
  ~PartsWorld() { std::filesystem::remove_all(folder_); }
};

}  // namespace atl::gateway::testing
