// SPDX-License-Identifier: Apache-2.0
//
// A gateway for tests with all its parts, and a sandbox "s" in it that asks api.example.
#pragma once

#include <filesystem>

#include "base/random.h"
#include "gateway/flow/http_flow.h"
#include "gateway/upstream/world_for_test.h"
#include "gateway/vault/sealing.h"

namespace atl::gateway::testing {

class FlowWorld {
 public:
  explicit FlowWorld(const std::string& rules) {
    std::filesystem::create_directories(folder_);
    vault = *vault::Vault::open(path("vault.db"), vault::Locked::copy_of(std::string(vault::kKeyBytes, 'k')),
                                clock);
    auto fetch = [](vault::TokenRequest) -> Task<Result<vault::TokenAnswer>> {
      co_return make_error(Code::kUnavailable, "there is no token endpoint");
    };
    minter = std::make_unique<vault::Minter>(executor(), *vault, fetch, clock);
    names_ = *Names::open(path("names.db"), "secret");
    approvals_ = *Approvals::open(executor(), path("approvals.db"), registry, clock);
    tokens_ = *token::Tokens::open(path("tokens.db"), vault->derive("tokens"), clock);
    parts.reset(new Parts{registry, flows, events_, *names_, authorities_, interceptor_, world.upstream,
                          *vault, *minter, identities_, patterns_, rates_, *approvals_, *tokens_,
                          placeholder_root, clock});
    put(rules);
    registry.heard();
  }
  ~FlowWorld() { std::filesystem::remove_all(folder_); }
  FlowWorld(const FlowWorld&) = delete;
  FlowWorld& operator=(const FlowWorld&) = delete;

  async::Executor executor() { return world.loop.get_executor(); }
  // The sandbox, with these rules of its tenant from now on.
  void put(const std::string& rules) {
    auto set =
        policy::parse_rule_set(R"({"version":1,"rules":[)" + rules + "]}", policy::Source::kTenant).value();
    Sandbox out;
    out.id = "s";
    out.tenant = "t";
    out.generation = 1;
    out.policy = policy::Policy::compile({std::move(set)}).value();
    registry.put(std::move(out));
  }
  // Answers a request as one that came through opened TLS.
  Task<> handle(http::Exchange& exchange) {
    HttpOrigin origin;
    origin.secure = true;
    HttpFlow flow(*parts, Inbound{registry.find("s"), "", authority("api.example:443")}, origin);
    co_await flow.handle(exchange);
  }
  http::Handler handler() {
    return [this](http::Exchange& exchange) { return handle(exchange); };
  }

  World world;
  ManualClock clock;
  Registry registry;
  Flows flows{executor(), registry};
  std::unique_ptr<vault::Vault> vault;
  std::unique_ptr<vault::Minter> minter;
  vault::Locked placeholder_root = vault::Locked::copy_of(std::string(vault::kKeyBytes, 'p'));
  std::unique_ptr<Parts> parts;

 private:
  std::string path(const char* name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("atoll-flow-" + random_hex(8));
  Events events_{clock};
  std::unique_ptr<Names> names_;
  Authorities authorities_{std::string(32, 'a'), clock};
  Interceptor interceptor_{clock};
  ClientIdentities identities_;
  PatternCache patterns_;
  Rates rates_{clock};
  std::unique_ptr<Approvals> approvals_;
  std::unique_ptr<token::Tokens> tokens_;
};

}  // namespace atl::gateway::testing
