// SPDX-License-Identifier: Apache-2.0
#include "apps/control/daemon.h"

#include <csignal>
#include <thread>

#include "apps/control/certificates.h"
#include "apps/daemon/privileges.h"
#include "base/log.h"
#include "base/text.h"
#include "sys/files.h"
#include "sys/host.h"

namespace atl::control_app {
namespace {

constexpr Steady::duration kGatewayDial = std::chrono::seconds(2);
constexpr Steady::duration kDrain = std::chrono::seconds(5);
constexpr Steady::duration kCertificateCheck = std::chrono::hours(12);

Result<std::string> boot_id() {
  TRY(std::string text, sys::read_file("/proc/sys/kernel/random/boot_id"));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

Daemon::Daemon(Options options) : options_(std::move(options)), background_(io_.get_executor()) {}

Result<void> Daemon::open() {
  // The builder owns what is in templates/; control only needs it to be there, so that Landlock can name it.
  TRY_VOID(sys::ensure_directory(options_.data_dir, 0755));
  TRY_VOID(daemons::own_directory(options_.control_dir(), options_.user));
  TRY_VOID(sys::ensure_directory(options_.templates_dir(), 0755));
  TRY(options_.service.boot_id, boot_id());
  TRY_VOID(watch_host());
  TRY_VOID(bind());  // a port below 1024 needs root
  TRY_VOID(daemons::become_user(options_.user));
  TRY(lock_, daemons::lock_directory(options_.control_dir(), "atoll-control"));
  // Before the store's thread is started: it would not be confined.
  TRY_VOID(daemons::confine_files({{options_.control_dir(), true}, {options_.templates_dir(), false}}));
  TRY_VOID(open_store());
  TRY_VOID(open_tls());
  return daemons::confine_calls();
}

// Opened before files are out of reach.
Result<void> Daemon::watch_host() {
  TRY(sys::HostProbe opened, sys::HostProbe::open(options_.data_dir));
  auto probe = std::make_shared<sys::HostProbe>(std::move(opened));
  sys::HostFacts facts = probe->read();
  std::uint64_t cores = std::max(1U, std::thread::hardware_concurrency());
  control::Amounts& sums = options_.service.max_sums;
  sums.memory_bytes = facts.memory_total * options_.overcommit.memory;
  sums.cpu_millis = cores * 1000 * options_.overcommit.cpu;
  sums.disk_bytes = facts.disk_total * options_.overcommit.disk;
  sums.processes = facts.processes_max * options_.overcommit.processes;
  options_.service.measure_host = [probe] { return probe->read(); };
  return success();
}

Result<void> Daemon::bind() {
  auto handler = [this](http::Exchange& exchange) { return handle(exchange); };
  for (const net::Endpoint& endpoint : options_.listen) {
    http::ServerOptions options;
    options.protocols.tls = tls_;
    options.protocols.plain = net::is_loopback(endpoint) || options_.plain == Plain::kAnywhere;
    TRY(auto listener, net::listen_tcp(io_.get_executor(), endpoint));
    std::uint16_t port = listener->port();
    servers_.push_back(
        std::make_unique<http::Server>(io_.get_executor(), std::move(listener), options, handler));
    const char* plain = options.protocols.plain ? "yes" : "no";
    log::info("listening", {{"address", endpoint.address}, {"port", port}, {"plain", plain}});
    if (options_.domain.find(':') == std::string::npos) options_.domain += fmt::format(":{}", port);
  }
  return {};
}

Result<void> Daemon::open_store() {
  std::string directory = options_.control_dir();
  TRY(db_, store::Database::open(directory + "/state.db"));
  identity_ = std::make_unique<control::Identity>(*db_, system_clock());
  TRY_VOID(identity_->load());
  TRY_VOID(identity_->bootstrap(directory + "/bootstrap.key"));
  catalog_ = std::make_unique<control::Catalog>(*db_, system_clock(), options_.templates_dir());
  TRY_VOID(catalog_->load());
  if (options_.first_use) {
    TRY(control::FirstUse first_use, control::FirstUse::open(options_.data_dir, system_clock()));
    catalog_->build_at_first_use(std::move(first_use));
  }
  auto connect = [path = options_.runner_socket()] { return net::connect_seqpacket(path); };
  if (options_.gateway == Gateway::kYes) {
    options_.service.connect_gateway = [path = options_.gateway_socket()] {
      return net::connect_unix(path, kGatewayDial);
    };
  }
  service_ = std::make_unique<control::SandboxService>(io_.get_executor(), *db_, system_clock(), *catalog_,
                                                       *identity_, connect, control::slot_network(),
                                                       options_.service);
  TRY_VOID(service_->load());
  ingress::Options ingress;
  ingress.domain = options_.domain;
  ingress_ = std::make_unique<ingress::Gateway>(*service_, ingress);
  services_.reset(
      new api::Services{*service_, *catalog_, *identity_, system_clock(), {options_.domain, ATOLL_VERSION}});
  services_->vault = control::VaultLink(options_.service.connect_gateway);
  router_ = std::make_unique<api::Router>(*services_, api::all_routes());
  return {};
}

Result<void> Daemon::open_tls() {
  TRY(auto identity,
      ensure_server_identity(options_.control_dir() + "/tls", options_.domain, system_clock()));
  TRY(auto tls, net::make_tls_server(identity));
  tls_->replace(std::move(tls));
  return {};
}

Task<> Daemon::handle(http::Exchange& exchange) {
  if (ingress_->wants(exchange.request())) return ingress_->handle(exchange);
  return router_->handle(exchange);
}

Task<> Daemon::renew_certificates() {
  co_await async::asio::this_coro::throw_if_cancelled(false);
  while (!stopping_) {
    co_await async::sleep_for(kCertificateCheck);
    if (stopping_) co_return;
    if (auto done = open_tls(); !done)
      log::error("could not renew the certificate", {{"what", done.error().message()}});
  }
}

Task<> Daemon::main_task() {
  async::asio::signal_set signals(io_, SIGTERM, SIGINT);
  service_->start();
  for (auto& server : servers_) server->start();
  background_.spawn("certificates", renew_certificates());
  log::info("ready", {{"domain", options_.domain}});
  co_await signals.async_wait(async::use_result);
  log::info("ending");
  stopping_ = true;
  background_.cancel();
  co_await background_.join();
  for (auto& server : servers_) co_await server->stop(kDrain);
  co_await service_->stop();
}

void Daemon::run() {
  async::asio::co_spawn(io_, main_task(), [this](std::exception_ptr failure) {
    if (failure) std::rethrow_exception(failure);
    io_.stop();  // kept connections to guests still wait for their time, and would hold the end up
  });
  io_.run();
}

}  // namespace atl::control_app
