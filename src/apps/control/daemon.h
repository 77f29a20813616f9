// SPDX-License-Identifier: Apache-2.0
//
// Daemon: the parts of atoll-control, wired together.
#pragma once

#include "api/router.h"
#include "apps/control/options.h"
#include "apps/control/renewable_tls.h"
#include "http/front/front.h"
#include "ingress/gateway.h"
#include "sys/fd.h"

namespace atl::control_app {

using async::Task;

class Daemon {
 public:
  explicit Daemon(Options options);
  // Everything up to and including the loss of privileges. Blocking.
  Result<void> open();
  // Serves until SIGTERM or SIGINT. Blocking.
  void run();

 private:
  Result<void> watch_host();
  Result<void> bind();
  Result<void> open_store();
  Result<void> open_tls();
  Task<> handle(http::Exchange& exchange);
  Task<> main_task();
  Task<> renew_certificates();

  Options options_;
  async::asio::io_context io_{1};
  sys::Fd lock_;
  std::unique_ptr<store::Database> db_;
  std::unique_ptr<control::Identity> identity_;
  std::unique_ptr<control::Catalog> catalog_;
  std::unique_ptr<control::SandboxService> service_;
  std::unique_ptr<ingress::Gateway> ingress_;
  std::unique_ptr<api::Services> services_;
  std::unique_ptr<api::Router> router_;
  std::shared_ptr<RenewableTls> tls_ = std::make_shared<RenewableTls>();
  std::vector<std::unique_ptr<http::Server>> servers_;  // one per address
  async::Scope background_;
  bool stopping_ = false;
};

}  // namespace atl::control_app
