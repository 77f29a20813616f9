// SPDX-License-Identifier: Apache-2.0
#include "apps/gateway/daemon.h"

#include <csignal>
#include <filesystem>

#include "apps/daemon/privileges.h"
#include "base/bytes.h"
#include "base/log.h"
#include "gateway/fetch/token_fetch.h"
#include "gateway/flow/placeholders.h"
#include "gateway/rules/network_policy.h"
#include "gateway/vault/key_change.h"
#include "gateway/vault/master_key.h"
#include "model/guest_boot.h"
#include "sys/files.h"

namespace atl::gateway_app {
namespace {

constexpr Steady::duration kDrain = std::chrono::seconds(2);
constexpr Steady::duration kRenewal = std::chrono::minutes(10);  // of tokens that are good for an hour
constexpr Steady::duration kSweep = std::chrono::seconds(1);     // of approvals that are over
constexpr char kKeyVariable[] = "ATOLL_GATEWAY_KEY";
constexpr unsigned kAnyMode = 0600;  // given to control's group before it is of use

Result<std::string> read_ca(const std::string& file) {
  if (file.empty()) return std::string();
  return sys::read_file(file, 4 << 20);
}

boost::json::object news_json(const gateway::Events::Batch& batch) {
  boost::json::array list;
  for (const gateway::EgressEvent& event : batch.events) {
    boost::json::object one{{"at", event.at.ms},     {"tenant", event.tenant}, {"sandbox", event.sandbox},
                            {"type", event.type},    {"target", event.target}, {"rule", event.rule},
                            {"reason", event.reason}};
    if (!event.label.empty()) one["label"] = event.label;
    if (!event.approval.empty()) one["approval"] = event.approval;
    if (!event.decided_by.empty()) one["decidedBy"] = event.decided_by;
    list.push_back(std::move(one));
  }
  return {{"events", std::move(list)}, {"last", batch.last}, {"lost", batch.lost}};
}

}  // namespace

Daemon::Daemon(Options options)
    : options_(std::move(options)),
      events_(system_clock()),
      feed_(
          registry_, [this](const gateway::Sandbox& sandbox) { return way_out(sandbox); },
          [this](gateway::SandboxPtr sandbox, gateway::Feed::HandOver hand_over) {
            return describe(std::move(sandbox), hand_over);
          },
          [this](std::uint64_t have) { return news_json(events_.after(have)); },
          [this](const std::string& sandbox) { return work_of(sandbox); }) {}

boost::json::object Daemon::work_of(const std::string& sandbox) const {
  auto quiet = std::chrono::duration_cast<Millis>(flows_.quiet(sandbox)).count();
  return {{"requests", flows_.requests(sandbox)},
          {"approvals", approvals_->pending(sandbox)},
          {"quietMs", quiet}};
}

Result<gateway::WayOut> Daemon::way_out(const gateway::Sandbox& sandbox) const {
  auto above = rules_->above(sandbox.tenant, sandbox.template_id);
  gateway::WayOut out;
  TRY(out.policy, gateway::compile_network(*sandbox.network, above));
  TRY(out.proxy, gateway::read_egress_proxy(*vault_, sandbox.tenant, *sandbox.network, std::move(above)));
  return out;
}

// What the sandbox must trust. Also where no rule of today opens a connection: one of tomorrow may, and what
// runs by then does not read its roots again.
boost::json::object Daemon::authority_of(const gateway::Sandbox& sandbox) {
  auto authority = authorities_->of(sandbox.id);
  if (authority) {
    return {{"pem", (*authority)->certificate_pem()},
            {"hash", (*authority)->subject_hash()},
            {"root", authority_root_}};
  }
  log::error("no certificate authority for a sandbox", {{"what", authority.error().message()}});
  return {};
}

Task<boost::json::object> Daemon::describe(gateway::SandboxPtr sandbox, gateway::Feed::HandOver hand_over) {
  boost::json::object out;
  out["authority"] = authority_of(*sandbox);
  if (std::size_t requests = flows_.under_way(sandbox->id); requests > 0) out["underWay"] = requests;
  if (hand_over == gateway::Feed::HandOver::kNo) co_return out;
  gateway::token::Holder holder{sandbox->tenant, sandbox->id, sandbox->generation, sandbox->slot};
  auto issued = co_await tokens_->issue(std::move(holder));
  if (!issued) {
    log::error("no token for a sandbox", {{"id", sandbox->id}, {"what", issued.error().message()}});
    co_return out;
  }
  out["token"] = issued->text.reveal();
  auto variables = gateway::placeholder_variables(*vault_, placeholder_root_, *sandbox);
  variables["ATOLL_SVC"] = fmt::format("http://{}/svc", model::kGatewayName);
  out["environment"] = boost::json::value_from(variables);
  co_return out;
}

void Daemon::sandbox_changed(const std::string& id) {
  gateway::SandboxPtr now = registry_.find(id);
  // Kept connections were checked under rules that may be others now.
  upstream_->forget(id);
  if (!now) authorities_->forget(id);
  if (!now) scope_.spawn("rates of a sandbox", rates_->forget(id));
  // Tokens of generations that are over, and of what rests or is gone.
  std::uint64_t last = now ? now->generation - 1 : UINT64_MAX;
  if (now && now->state == model::State::kPaused) last = now->generation;
  auto revoke = [](gateway::token::Tokens* tokens, std::string sandbox, std::uint64_t generation) -> Task<> {
    auto done = co_await tokens->revoke(std::move(sandbox), generation);
    if (!done) log::warn("a token could not be forgotten", {{"what", done.error().message()}});
  };
  scope_.spawn("revocation", revoke(tokens_.get(), id, last));
  scope_.spawn("approvals of a sandbox", approvals_->sandbox_changed(id));
}

Task<> Daemon::sweep_approvals() {
  while (!scope_.cancelled()) {
    co_await approvals_->sweep();
    co_await async::sleep_for(kSweep);
  }
}

// Control need not be there for it, but what it said must be the truth still.
Task<> Daemon::renew_tokens() {
  while (!scope_.cancelled()) {
    co_await async::sleep_for(kRenewal);
    if (!registry_.fresh()) continue;
    auto renewed = co_await tokens_->renew([this](const gateway::token::Holder& holder) {
      gateway::SandboxPtr now = registry_.find(holder.sandbox);
      return now && now->generation == holder.generation && now->slot == holder.slot &&
             now->state != model::State::kPaused;
    });
    if (!renewed) log::error("tokens were not renewed", {{"what", renewed.error().message()}});
  }
}

Result<void> Daemon::open() {
  TRY_VOID(sys::ensure_directory(options_.data_dir, 0755));
  TRY_VOID(sys::ensure_directory(options_.run_dir, 0755));
  TRY_VOID(daemons::own_directory(options_.gateway_dir(), options_.user));
  TRY_VOID(daemons::own_directory(options_.passing_dir(), options_.user));
  TRY_VOID(bind());
  TRY_VOID(open_upstream());  // reads the host's roots and name servers
  TRY_VOID(daemons::become_user(options_.user));
  TRY(lock_, daemons::lock_directory(options_.gateway_dir(), "atoll-gateway"));
  // Before the vault's thread is started: it would not be confined.
  std::vector<sys::LandlockPath> paths{{options_.gateway_dir(), true}, {options_.passing_dir(), true}};
  for (const char* path : {"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"}) {
    if (sys::read_file(path).ok()) paths.push_back({path, false});
  }
  // The folder: who writes the file may put a new one in its place.
  if (!options_.rules_file.empty())
    paths.push_back({std::filesystem::path(options_.rules_file).parent_path(), false});
  TRY_VOID(daemons::confine_files(std::move(paths)));
  TRY_VOID(open_rules());
  TRY_VOID(open_approvals());
  TRY_VOID(open_vault());
  TRY(rates_, gateway::Rates::open(options_.gateway_dir() + "/rates.db", system_clock()));
  interceptor_ = std::make_unique<gateway::Interceptor>(system_clock());
  TRY_VOID(interceptor_->prepare());
  TRY(names_, gateway::Names::open(options_.gateway_dir() + "/names.db", vault_->derive("names").reveal()));
  parts_.reset(new gateway::Parts{registry_, flows_, events_, *names_, *authorities_, *interceptor_,
                                  *upstream_, *vault_, *minter_, identities_, patterns_, *rates_, *approvals_,
                                  *tokens_, placeholder_root_, system_clock()});
  front_ = std::make_unique<gateway::Front>(io_.get_executor(), *parts_, std::move(listener_),
                                            std::move(datagrams_));
  cleaner_ = registry_.on_change([this](const std::string& id) { sandbox_changed(id); });
  return daemons::confine_calls();
}

// The port is for every address of this host: a redirected connection arrives at that of its slot's link.
// What was not redirected is reset at once, and the runner's firewall lets nothing else in.
Result<void> Daemon::bind() {
  net::Endpoint all{"0.0.0.0", options_.port};
  TRY(listener_, net::listen_tcp(io_.get_executor(), all));
  TRY(datagrams_, net::bind_udp(io_.get_executor(), all));
  TRY(auto feed, net::listen_unix(io_.get_executor(), options_.feed_socket(), kAnyMode));
  TRY_VOID(daemons::share_socket(options_.feed_socket(), options_.control_user));
  http::ServerOptions options;
  http::Handler handler = [this](http::Exchange& exchange) { return handle(exchange); };
  feed_server_ = std::make_unique<http::Server>(io_.get_executor(), std::move(feed), options, handler);
  log::info("listening", {{"port", options_.port}, {"feed", options_.feed_socket()}});
  return success();
}

Task<> Daemon::handle(http::Exchange& exchange) {
  if (gateway::vault::HttpApi::takes(exchange.request())) return vault_api_->handle(exchange);
  if (gateway::RulesApi::takes(exchange.request())) return rules_api_->handle(exchange);
  if (gateway::ApprovalsApi::takes(exchange.request())) return approvals_api_->handle(exchange);
  return feed_.handle(exchange);
}

Result<void> Daemon::open_approvals() {
  TRY(approvals_, gateway::Approvals::open(io_.get_executor(), options_.gateway_dir() + "/approvals.db",
                                           registry_, system_clock()));
  approvals_->on_change([this](const gateway::Approval& approval) { events_.add(approval); });
  approvals_api_ = std::make_unique<gateway::ApprovalsApi>(*approvals_);
  return success();
}

Result<void> Daemon::open_rules() {
  TRY(rules_, gateway::RuleBook::open(options_.gateway_dir() + "/rules.db", system_clock()));
  rule_file_ = std::make_unique<gateway::RuleFile>(*rules_, options_.rules_file);
  TRY_VOID(rule_file_->begin());
  rules_api_ = std::make_unique<gateway::RulesApi>(*rules_, *rule_file_, registry_, system_clock());
  rules_->on_change([this](gateway::policy::Source author, const std::string& name) {
    feed_.compile_anew([&](const gateway::Sandbox& sandbox) {
      if (author == gateway::policy::Source::kTenant) return sandbox.tenant == name;
      return author == gateway::policy::Source::kOperator || sandbox.template_id == name;
    });
  });
  return success();
}

// With a key from the environment when it is given there, else from a file, which the first start makes.
Result<void> Daemon::open_vault() {
  std::string path = options_.gateway_dir() + "/vault.db";
  auto given = gateway::vault::key_from_environment(kKeyVariable);
  key_from_file_ = !given.ok() && given.error().code() == Code::kNotFound;
  if (key_from_file_) {
    TRY(vault_, gateway::vault::open_with_key_file(path, options_.key_file(), system_clock()));
  } else {
    TRY(gateway::vault::Locked key, std::move(given));
    TRY(vault_, gateway::vault::Vault::open(path, key, system_clock()));
  }
  // A tenant names its token endpoints, so they are where everybody may go, and nowhere else.
  auto fetch = gateway::make_token_fetch(*upstream_, gateway::check_world);
  minter_ =
      std::make_unique<gateway::vault::Minter>(io_.get_executor(), *vault_, std::move(fetch), system_clock());
  vault_api_ = std::make_unique<gateway::vault::HttpApi>(*vault_, *minter_, [this] { return change_key(); });
  constexpr std::size_t kDigits = 16;
  authority_root_ = hex_encode(vault_->derive("name of the authorities").reveal()).substr(0, kDigits);
  authorities_ = std::make_unique<gateway::Authorities>(std::string(vault_->derive("authorities").reveal()),
                                                        system_clock());
  placeholder_root_ = vault_->derive("placeholders");
  TRY(tokens_, gateway::token::Tokens::open(options_.passing_dir() + "/tokens.db", vault_->derive("tokens"),
                                            system_clock()));
  return success();
}

Task<Result<void>> Daemon::change_key() {
  if (!key_from_file_) {
    co_return make_error(Code::kUnsupported, "the master key is given by {}, which the gateway cannot change",
                         kKeyVariable)
        .with_word("vault_key_given")
        .with_hint("put the key into the file master.key of the gateway and start it without the variable");
  }
  co_return co_await gateway::vault::change_key_file(*vault_, options_.key_file());
}

Result<void> Daemon::open_upstream() {
  gateway::ResolverOptions options;
  options.servers = options_.dns;
  TRY(auto resolver, gateway::make_resolver(io_.get_executor(), options));
  TRY(std::string roots, read_ca(options_.ca_file));
  TRY(auto tls, net::make_tls_client(roots));
  upstream_ = std::make_unique<gateway::Upstream>(io_.get_executor(), std::move(resolver), std::move(tls));
  return success();
}

Task<> Daemon::main_task() {
  async::asio::signal_set signals(io_, SIGTERM, SIGINT);
  feed_server_->start();
  front_->start();
  scope_.spawn("rules of the operator", rule_file_->watch());
  scope_.spawn("sweep of approvals", sweep_approvals());
  scope_.spawn("renewal of tokens", renew_tokens());
  log::info("ready");
  co_await signals.async_wait(async::use_result);
  log::info("ending");
  scope_.cancel();
  co_await scope_.join();
  co_await feed_server_->stop(kDrain);
  co_await front_->stop();
  co_await minter_->stop();
  co_await upstream_->shut_down();
}

void Daemon::run() {
  async::asio::co_spawn(io_, main_task(), [this](std::exception_ptr failure) {
    if (failure) std::rethrow_exception(failure);
    io_.stop();
  });
  io_.run();
}

}  // namespace atl::gateway_app
