// SPDX-License-Identifier: Apache-2.0
//
// What the commands that manage this machine's daemons share: options, the daemons' flags, waiting for them.
#pragma once

#include <string>
#include <vector>

#include "apps/cli/command.h"
#include "apps/cli/config.h"
#include "apps/cli/supervisor.h"

namespace atl::cli {

// Options that win over the configuration file; empty or negative: not given.
struct MachineOptions {
  std::string config_path;
  bool no_config = false;  // hidden: take nothing from a file
  std::string data_dir, run_dir, user, plain, domain, default_isolation, gateway_rules;
  std::vector<std::string> listen;
  int slot_first = -1, slot_count = -1, ready = -1, patience = -1;
  bool microvm_emulation = false;
  bool evict_paused = false;
  bool gateway = false, no_gateway = false;      // neither: as configured
  bool first_use = false, no_first_use = false;  // the same
  int gateway_port = -1;
};
// Declares --config, --data-dir and --run-dir, and with kAll what else is in the configuration.
enum class Declare { kPaths, kAll };
void add_machine_options(Commands& commands, CLI::App& app, MachineOptions& options, Declare which);
// File, then options, then `--instance`; checked.
Result<Config> resolve_config(const MachineOptions& options, const Globals& globals);
// The options that give exactly `config` again, for the supervisor that we start.
std::vector<std::string> config_flags(const Config& config);
// What config_flags() wrote; a flag that is not there keeps its default.
Result<Config> config_of_flags(const std::vector<std::string>& flags);
// How an instance that runs with `running` differs from what is `asked`, one "--flag value" for each
// difference: the running value. What is registered with templates (--ready) is not of the daemons.
std::vector<std::string> settings_that_differ(const Config& running, const Config& asked);
// For the commands that are told an instance by name: its folders, as `atoll up` noted them for this user,
// where neither flags nor --config say others.
void recall_folders(MachineOptions& options, const std::string& instance);

// The daemons of one instance in the order of starting, with their flags and logs. kNotFound when a program
// is missing.
Result<std::vector<DaemonSpec>> daemon_specs(const Config& config);
// What builds templates that are first asked for; none where the configuration says so.
Result<std::optional<ErrandSpec>> errand_spec(const Config& config);

// Replaces port 0 by a free one, so that the daemons keep it through restarts.
Result<void> choose_ports(Config& config);
// The same for the gateway's. The usual one is not insisted on: nobody outside needs to know it, and another
// instance may have it.
Result<void> choose_gateway_port(Config& config);
// Whether a runner holds its lock that no supervisor of ours has started: systemd's, or one started by hand.
bool run_by_others(const Config& config);
// kDenied with what to do, unless we are root.
Result<void> require_root(std::string_view what);

// The address that a client on this machine uses: a loopback address where there is one; 0.0.0.0 becomes
// 127.0.0.1.
std::string local_url(const Config& config);
// Adds a loopback address when none of `listen` can be reached by the names in our own certificate.
Result<void> ensure_local_address(Config& config);

}  // namespace atl::cli
