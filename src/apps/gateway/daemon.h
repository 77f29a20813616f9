// SPDX-License-Identifier: Apache-2.0
//
// Daemon: the parts of atoll-gateway, wired together.
#pragma once

#include <memory>

#include "apps/gateway/options.h"
#include "gateway/approvals/approvals_api.h"
#include "gateway/flow/credentials.h"
#include "gateway/fronts/front.h"
#include "gateway/rules/rules_api.h"
#include "gateway/sandboxes/feed.h"
#include "gateway/vault/http_api.h"
#include "http/front/front.h"
#include "sys/fd.h"

namespace atl::gateway_app {

using async::Task;

class Daemon {
 public:
  explicit Daemon(Options options);
  // Everything up to and including the loss of privileges. Blocking.
  Result<void> open();
  // Serves until SIGTERM or SIGINT. Blocking.
  void run();

 private:
  Result<void> bind();
  Result<void> open_rules();
  Result<void> open_approvals();
  Task<Result<void>> change_key();
  Result<void> open_vault();
  Result<void> open_upstream();
  Task<> main_task();
  Task<> handle(http::Exchange& exchange);
  Task<boost::json::object> describe(gateway::SandboxPtr sandbox, gateway::Feed::HandOver hand_over);
  // What may leave a sandbox, by its own rules and those above it, and through which proxy.
  Result<gateway::WayOut> way_out(const gateway::Sandbox& sandbox) const;
  boost::json::object work_of(const std::string& sandbox) const;
  boost::json::object authority_of(const gateway::Sandbox& sandbox);
  void sandbox_changed(const std::string& id);
  Task<> renew_tokens();
  Task<> sweep_approvals();

  Options options_;
  async::asio::io_context io_{1};
  sys::Fd lock_;
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<net::DatagramSocket> datagrams_;
  gateway::Registry registry_;
  gateway::Flows flows_{io_.get_executor(), registry_};
  gateway::Events events_;
  std::unique_ptr<gateway::RuleBook> rules_;
  std::unique_ptr<gateway::RuleFile> rule_file_;
  std::unique_ptr<gateway::RulesApi> rules_api_;
  gateway::Feed feed_;
  std::unique_ptr<http::Server> feed_server_;
  bool key_from_file_ = false;
  std::unique_ptr<gateway::vault::Vault> vault_;
  std::string authority_root_;  // changes with the root of all authorities, and does not tell it
  std::unique_ptr<gateway::Names> names_;
  std::unique_ptr<gateway::Authorities> authorities_;
  std::unique_ptr<gateway::Interceptor> interceptor_;
  std::unique_ptr<gateway::Upstream> upstream_;
  std::unique_ptr<gateway::vault::Minter> minter_;
  std::unique_ptr<gateway::vault::HttpApi> vault_api_;
  gateway::vault::Locked placeholder_root_;
  std::unique_ptr<gateway::token::Tokens> tokens_;
  gateway::ClientIdentities identities_;
  gateway::PatternCache patterns_;
  std::unique_ptr<gateway::Rates> rates_;
  std::unique_ptr<gateway::Approvals> approvals_;
  std::unique_ptr<gateway::ApprovalsApi> approvals_api_;
  std::unique_ptr<gateway::Parts> parts_;
  std::unique_ptr<gateway::Front> front_;
  async::Scope scope_{io_.get_executor()};
  std::shared_ptr<void> cleaner_;  // drops what is kept of sandboxes that are gone
};

}  // namespace atl::gateway_app
