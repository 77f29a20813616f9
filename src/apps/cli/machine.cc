// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/machine.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <CLI/CLI.hpp>

#include "apps/cli/target.h"
#include "base/patience.h"
#include "model/first_use.h"
#include "model/known_templates.h"
#include "net/tcp.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

std::string format_endpoint(const net::Endpoint& endpoint) {
  bool v6 = endpoint.address.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", endpoint.address, endpoint.port)
            : fmt::format("{}:{}", endpoint.address, endpoint.port);
}

// Binds port 0 and tells which one the kernel gave. It may be taken again before the daemon binds it; then
// that one says so.
Result<std::uint16_t> free_port(const std::string& address) {
  bool v6 = address.find(':') != std::string::npos;
  sys::Fd fd(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 storage{};
  auto* any = reinterpret_cast<sockaddr*>(&storage);
  socklen_t size = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  any->sa_family = static_cast<sa_family_t>(v6 ? AF_INET6 : AF_INET);
  void* where = v6 ? static_cast<void*>(&storage.sin6_addr) : &reinterpret_cast<sockaddr_in*>(any)->sin_addr;
  if (::inet_pton(any->sa_family, address.c_str(), where) != 1)
    return make_error(Code::kInvalid, "'{}' is no address", address);
  if (!fd || ::bind(fd.get(), any, size) != 0 || ::getsockname(fd.get(), any, &size) != 0) {
    return Error::from_errno(errno, "find a free port on " + address);
  }
  return ntohs(v6 ? storage.sin6_port : reinterpret_cast<sockaddr_in*>(any)->sin_port);
}

// Whether somebody has this port of this host, TCP or UDP.
bool is_taken(std::uint32_t port) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(static_cast<std::uint16_t>(port));
  int yes = 1;
  for (int type : {SOCK_STREAM, SOCK_DGRAM}) {
    sys::Fd fd(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
    // As the daemon does: what its predecessor has left behind of closed connections is no obstacle.
    if (type == SOCK_STREAM) (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0) return true;
  }
  return false;
}

// How well a client on this machine reaches an address: 2 loopback, 1 all addresses, 0 another one.
int reach_of(const std::string& address) {
  auto endpoint = net::parse_endpoint(address, net::AnyPort::kYes);
  if (!endpoint.ok()) return 0;
  if (net::is_loopback(*endpoint)) return 2;
  return endpoint->address == "0.0.0.0" || endpoint->address == "::" ? 1 : 0;
}

// It starts as root, binds its port, and becomes a user of its own by itself.
Result<DaemonSpec> gateway_spec(const Config& config) {
  TRY(std::string program, find_daemon("atoll-gateway"));
  DaemonSpec gateway{
      "gateway", program, {}, "", config.run_dir + "/gateway.sock", config.data_dir + "/log/gateway.log"};
  gateway.arguments = {
      "--data-dir", config.data_dir,  "--run-dir", config.run_dir, "--user",
      kGatewayUser, "--control-user", config.user, "--port",       fmt::format("{}", config.gateway_port)};
  if (!config.gateway_rules.empty())
    gateway.arguments.insert(gateway.arguments.end(), {"--rules-file", config.gateway_rules});
  return gateway;
}

}  // namespace

void add_machine_options(Commands& commands, CLI::App& app, MachineOptions& options, Declare which) {
  app.add_option("--config", options.config_path,
                 std::string("configuration file (default: ") + kDefaultConfig + ")")
      ->type_name("FILE");
  app.add_option("--data-dir", options.data_dir, "what is kept (default: /var/lib/atoll)")->type_name("DIR");
  app.add_option("--run-dir", options.run_dir, "sockets and state of this boot (default: /run/atoll)")
      ->type_name("DIR");
  app.add_flag("--no-config", options.no_config)->group("");
  if (which == Declare::kPaths) return;
  commands.add_list(app, "--listen", "ADDRESS:PORT", &options.listen,
                    "serve here (default: 127.0.0.1:7400); repeatable");
  app.add_option("--plain", options.plain, "where plain HTTP is answered: loopback (default) or anywhere")
      ->type_name("WHERE")
      ->check(CLI::IsMember({"loopback", "anywhere"}));
  app.add_option("--domain", options.domain, "names of sandboxes (default: atoll.localhost)")
      ->type_name("NAME");
  app.add_option("--user", options.user, "system user for the unprivileged daemon (default: atoll)")
      ->type_name("NAME");
  app.add_option("--slot-first", options.slot_first, "first slot number (default: 0)")
      ->type_name("N")
      ->check(CLI::Range(0, 65535));
  app.add_option("--slot-count", options.slot_count, "most sandboxes at once (default: 256)")
      ->type_name("N")
      ->check(CLI::Range(1, 65535));
  app.add_option("--ready", options.ready, "sandboxes started ahead, per template (default: 4)")
      ->type_name("N")
      ->check(CLI::Range(0, 1000));
  app.add_option("--default-isolation", options.default_isolation,
                 "of sandboxes for which nobody asks: container, gvisor, microvm, or auto (default): gvisor "
                 "where it is usable, else container")
      ->type_name("TIER")
      ->check(CLI::IsMember({"container", "gvisor", "microvm", "auto"}));
  app.add_flag("--microvm-emulation", options.microvm_emulation,
               "where KVM does not work, emulate the processors of the microvm tier");
  app.add_option("--patience", options.patience,
                 "wait N times as long for sandboxes to start, rest and end: for hosts that are emulated, or "
                 "always busy (default: 1)")
      ->type_name("N")
      ->check(CLI::Range(1, static_cast<int>(kMaxPatience)));
  app.add_flag("--evict-paused", options.evict_paused,
               "take the memory of paused sandboxes to the host's swap");
  auto* builds = app.add_flag("--first-use", options.first_use,
                              "build code-interpreter-v1 when it is first asked for (the default)");
  app.add_flag("--no-first-use", options.no_first_use, "build templates only by 'atoll template build'")
      ->excludes(builds);
  auto* on = app.add_flag("--gateway", options.gateway,
                          "send everything that leaves sandboxes through atoll-gateway (the default)");
  app.add_flag("--no-gateway", options.no_gateway, "let sandboxes out directly, by address rules alone")
      ->excludes(on);
  app.add_option("--gateway-port", options.gateway_port, "port of the gateway on this host (default: 7401)")
      ->type_name("PORT")
      ->check(CLI::Range(0, 65535));
  app.add_option("--gateway-rules", options.gateway_rules,
                 "rules for all sandboxes, followed while it runs (atoll-policy(5))")
      ->type_name("FILE");
}

Result<Config> resolve_config(const MachineOptions& options, const Globals& globals) {
  Config config;
  if (!options.no_config) {
    bool named = !options.config_path.empty();
    TRY(config,
        load_config(named ? options.config_path : kDefaultConfig, named ? Required::kYes : Required::kNo));
  }
  if (!globals.instance.empty()) config.instance = globals.instance;
  if (!options.data_dir.empty()) config.data_dir = options.data_dir;
  if (!options.run_dir.empty()) config.run_dir = options.run_dir;
  if (!options.user.empty()) config.user = options.user;
  if (!options.domain.empty()) config.domain = options.domain;
  if (!options.listen.empty()) config.listen = options.listen;
  if (!options.plain.empty())
    config.plain = options.plain == "anywhere" ? Plain::kAnywhere : Plain::kLoopback;
  if (options.slot_first >= 0) config.slot_first = static_cast<std::uint32_t>(options.slot_first);
  if (options.slot_count >= 0) config.slot_count = static_cast<std::uint32_t>(options.slot_count);
  if (options.ready >= 0) config.ready_sandboxes = static_cast<std::uint32_t>(options.ready);
  if (!options.default_isolation.empty()) config.default_isolation = options.default_isolation;
  if (options.microvm_emulation) config.microvm_emulation = true;
  if (options.patience >= 0) config.patience = static_cast<std::uint32_t>(options.patience);
  if (options.evict_paused) config.evict_paused = true;
  if (options.gateway || options.no_gateway) config.gateway = options.gateway;
  if (options.first_use || options.no_first_use) config.first_use = options.first_use;
  if (!options.gateway_rules.empty()) config.gateway_rules = options.gateway_rules;
  if (options.gateway_port >= 0) config.gateway_port = static_cast<std::uint32_t>(options.gateway_port);
  TRY_VOID(check_config(config));
  return config;
}

std::vector<std::string> config_flags(const Config& config) {
  std::vector<std::string> flags{"--no-config",
                                 "--instance",
                                 config.instance,
                                 "--data-dir",
                                 config.data_dir,
                                 "--run-dir",
                                 config.run_dir,
                                 "--user",
                                 config.user,
                                 "--domain",
                                 config.domain,
                                 "--plain",
                                 config.plain == Plain::kAnywhere ? "anywhere" : "loopback",
                                 "--slot-first",
                                 fmt::format("{}", config.slot_first),
                                 "--slot-count",
                                 fmt::format("{}", config.slot_count),
                                 "--ready",
                                 fmt::format("{}", config.ready_sandboxes),
                                 "--default-isolation",
                                 config.default_isolation,
                                 "--patience",
                                 fmt::format("{}", config.patience)};
  for (const std::string& address : config.listen) flags.insert(flags.end(), {"--listen", address});
  if (config.microvm_emulation) flags.push_back("--microvm-emulation");
  if (config.evict_paused) flags.push_back("--evict-paused");
  flags.push_back(config.gateway ? "--gateway" : "--no-gateway");
  flags.push_back(config.first_use ? "--first-use" : "--no-first-use");
  if (!config.gateway_rules.empty()) flags.insert(flags.end(), {"--gateway-rules", config.gateway_rules});
  flags.insert(flags.end(), {"--gateway-port", fmt::format("{}", config.gateway_port)});
  return flags;
}

Result<Config> config_of_flags(const std::vector<std::string>& flags) {
  MachineOptions options;
  options.no_config = true;
  Globals globals;
  Commands commands;
  CLI::App& app = commands.add(nullptr, "flags", "", "", nullptr);
  app.add_option("--instance", globals.instance);
  add_machine_options(commands, app, options, Declare::kAll);
  try {
    app.parse(std::vector<std::string>(flags.rbegin(), flags.rend()));  // CLI11 takes the last word first
  } catch (const CLI::Error& failure) {
    return make_error(Code::kCorrupt, "flags that are not ours: {}", failure.what());
  }
  // An older version said so by saying nothing.
  options.no_gateway = !options.gateway;
  options.no_first_use = !options.first_use;
  return resolve_config(options, globals);
}

std::vector<std::string> settings_that_differ(const Config& running, const Config& asked) {
  std::vector<std::string> differ;
  auto compare = [&](const char* flag, const auto& runs, const auto& wanted) {
    if (runs != wanted) differ.push_back(fmt::format("{} {}", flag, runs));
  };
  auto serves = [](const std::vector<std::string>& list, const std::string& address) {
    bool any_port = address.ends_with(":0");
    std::string front = address.substr(0, address.rfind(':') + 1);
    return std::any_of(list.begin(), list.end(), [&](const std::string& one) {
      return any_port ? one.starts_with(front) : one == address;
    });
  };
  bool all_served = std::all_of(asked.listen.begin(), asked.listen.end(),
                                [&](const std::string& one) { return serves(running.listen, one); });
  // One more than asked may be the loopback address that ensure_local_address() adds.
  bool others = std::any_of(running.listen.begin(), running.listen.end(), [&](const std::string& one) {
    return reach_of(one) != 2 && !serves(asked.listen, one) &&
           !serves(asked.listen, one.substr(0, one.rfind(':')) + ":0");
  });
  if (!all_served || others) {
    for (const std::string& one : running.listen) differ.push_back("--listen " + one);
  }
  auto plain = [](Plain where) { return where == Plain::kAnywhere ? "anywhere" : "loopback"; };
  compare("--plain", std::string(plain(running.plain)), std::string(plain(asked.plain)));
  compare("--domain", running.domain, asked.domain);
  compare("--user", running.user, asked.user);
  compare("--slot-first", running.slot_first, asked.slot_first);
  compare("--slot-count", running.slot_count, asked.slot_count);
  compare("--patience", running.patience, asked.patience);
  compare("--default-isolation", running.default_isolation, asked.default_isolation);
  if (running.gateway != asked.gateway) differ.push_back(running.gateway ? "--gateway" : "--no-gateway");
  if (running.first_use != asked.first_use)
    differ.push_back(running.first_use ? "--first-use" : "--no-first-use");
  compare("--gateway-rules", running.gateway_rules, asked.gateway_rules);
  return differ;
}

void recall_folders(MachineOptions& options, const std::string& instance) {
  bool told = !options.config_path.empty() || !options.data_dir.empty() || !options.run_dir.empty();
  if (instance.empty() || told) return;
  auto target = find_target(instance);
  if (!target.ok() || target->run_dir.empty() || target->data_dir.empty()) return;
  options.data_dir = target->data_dir;
  options.run_dir = target->run_dir;
}

Result<std::vector<DaemonSpec>> daemon_specs(const Config& config) {
  TRY(std::string runner_program, find_daemon("atoll-runner"));
  TRY(std::string control_program, find_daemon("atoll-control"));
  TRY(std::string guestd, find_daemon("atoll-guestd"));
  DaemonSpec runner{
      "runner", runner_program, {}, "", config.run_dir + "/runner.sock", config.data_dir + "/log/runner.log"};
  runner.arguments = {"--data-dir",     config.data_dir,
                      "--run-dir",      config.run_dir,
                      "--instance",     config.instance,
                      "--control-user", config.user,
                      "--slot-first",   fmt::format("{}", config.slot_first),
                      "--slot-count",   fmt::format("{}", config.slot_count),
                      "--patience",     fmt::format("{}", config.patience),
                      "--guestd",       guestd};
  if (config.microvm_emulation) runner.arguments.push_back("--microvm-emulation");
  if (config.evict_paused) runner.arguments.push_back("--evict-paused");
  std::string port = fmt::format("{}", config.gateway_port);
  if (config.gateway) runner.arguments.insert(runner.arguments.end(), {"--egress-port", port});
  // Control starts as root, binds its port, and becomes the user by itself.
  DaemonSpec control{"control", control_program, {}, "", "", config.data_dir + "/log/control.log"};
  control.arguments = {"--data-dir",
                       config.data_dir,
                       "--run-dir",
                       config.run_dir,
                       "--user",
                       config.user,
                       "--domain",
                       config.domain,
                       "--plain",
                       config.plain == Plain::kAnywhere ? "anywhere" : "loopback",
                       "--pool-size",
                       fmt::format("{}", config.ready_sandboxes),
                       "--max-sandboxes",
                       fmt::format("{}", config.slot_count),
                       "--default-isolation",
                       config.default_isolation,
                       "--patience",
                       fmt::format("{}", config.patience)};
  for (const std::string& address : config.listen)
    control.arguments.insert(control.arguments.end(), {"--listen", address});
  if (config.first_use) control.arguments.push_back("--first-use");
  if (!config.gateway) return std::vector<DaemonSpec>{std::move(runner), std::move(control)};
  control.arguments.push_back("--gateway");
  TRY(DaemonSpec gateway, gateway_spec(config));
  return std::vector<DaemonSpec>{std::move(runner), std::move(gateway), std::move(control)};
}

Result<std::optional<ErrandSpec>> errand_spec(const Config& config) {
  if (!config.first_use) return std::optional<ErrandSpec>();
  ErrandSpec errand;
  errand.name = "builder";
  TRY(errand.program, find_daemon("atoll"));
  errand.arguments.emplace_back("build-wanted");
  for (std::string& flag : config_flags(config)) errand.arguments.push_back(std::move(flag));
  errand.log_path = config.data_dir + "/log/builder.log";
  errand.folder = fmt::format("{}/control/{}", config.data_dir, model::kWantedFolder);
  for (std::string_view name : model::kFirstUseTemplates) errand.names.emplace_back(name);
  return std::optional<ErrandSpec>(std::move(errand));
}

Result<void> choose_ports(Config& config) {
  for (std::string& address : config.listen) {
    TRY(net::Endpoint endpoint, net::parse_endpoint(address, net::AnyPort::kYes));
    if (endpoint.port != 0) continue;
    TRY(endpoint.port, free_port(endpoint.address));
    address = format_endpoint(endpoint);
  }
  return success();
}

Result<void> choose_gateway_port(Config& config) {
  bool usual = config.gateway_port == Config().gateway_port;
  if (config.gateway && (config.gateway_port == 0 || (usual && is_taken(config.gateway_port)))) {
    TRY(config.gateway_port, free_port("0.0.0.0"));
  }
  return success();
}

bool run_by_others(const Config& config) {
  if (load_state(config.run_dir).ok()) return false;
  auto lock = sys::open_file(config.run_dir + "/runner.lock", O_RDONLY);
  return lock.ok() && ::flock(lock->get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

Result<void> require_root(std::string_view what) {
  if (::geteuid() == 0) return success();
  return make_error(Code::kDenied, "{} needs root: it makes namespaces, cgroups and firewall rules", what)
      .with_hint(fmt::format("run it with sudo: sudo {}", what));
}

std::string local_url(const Config& config) {
  const std::string* chosen = &config.listen.front();
  for (const std::string& address : config.listen) {
    if (reach_of(address) > reach_of(*chosen)) chosen = &address;
  }
  auto endpoint = net::parse_endpoint(*chosen, net::AnyPort::kYes);
  if (!endpoint.ok()) return "http://" + *chosen;
  bool plain = net::is_loopback(*endpoint) || config.plain == Plain::kAnywhere;
  if (endpoint->address == "0.0.0.0") endpoint->address = "127.0.0.1";
  if (endpoint->address == "::") endpoint->address = "::1";
  return (plain ? "http://" : "https://") + format_endpoint(*endpoint);
}

Result<void> ensure_local_address(Config& config) {
  for (const std::string& address : config.listen) {
    if (reach_of(address) > 0) return success();
  }
  TRY(net::Endpoint endpoint, net::parse_endpoint(config.listen.front(), net::AnyPort::kYes));
  config.listen.push_back(fmt::format("127.0.0.1:{}", endpoint.port));
  return success();
}

}  // namespace atl::cli
