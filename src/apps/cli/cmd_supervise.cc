// SPDX-License-Identifier: Apache-2.0
//
// Hidden: `atoll supervise` is what `atoll up` leaves running; `atoll daemon NAME` is what the systemd units
// start.
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/machine.h"
#include "apps/cli/registry.h"
#include "base/log.h"

namespace atl::cli {
namespace {

Result<int> run_supervisor(const MachineOptions& machine, const Globals& globals) {
  TRY_VOID(require_root("atoll supervise"));
  TRY(Config config, resolve_config(machine, globals));
  TRY(std::vector<DaemonSpec> daemons, daemon_specs(config));
  log::set_program("atoll-supervisor");
  SupervisorState told;
  told.listen = config.listen;
  told.slot_first = config.slot_first;
  told.slot_count = config.slot_count;
  told.flags = config_flags(config);
  TRY(std::optional<ErrandSpec> errand, errand_spec(config));
  TRY_VOID(supervise({config.run_dir, std::move(told), std::move(daemons), std::move(errand)}));
  return kExitOk;
}

// Becomes the daemon: same process, so that systemd watches the daemon itself.
Result<int> become_daemon(const std::string& name, const MachineOptions& machine, const Globals& globals) {
  TRY(Config config, resolve_config(machine, globals));
  if (name == "gateway" && !config.gateway) return kExitOk;  // its unit may be enabled: it has nothing to do
  TRY(std::vector<DaemonSpec> daemons, daemon_specs(config));
  for (const DaemonSpec& spec : daemons) {
    if (spec.name != name) continue;
    std::vector<char*> argv{const_cast<char*>(spec.program.c_str())};
    for (const std::string& argument : spec.arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    return Error::from_errno(errno, "start " + spec.program);
  }
  return make_error(Code::kInvalid, "there is no daemon '{}'", name)
      .with_word("usage")
      .with_hint("runner, gateway or control");
}

}  // namespace

void register_supervise(Commands& commands) {
  auto machine = std::make_shared<MachineOptions>();
  CLI::App& app =
      commands.add(nullptr, "supervise", "keep the daemons of this machine running ('atoll up' starts it)",
                   "", [machine](const Globals& globals) { return run_supervisor(*machine, globals); });
  add_machine_options(commands, app, *machine, Declare::kAll);
  commands.hide(app);
}

void register_daemon(Commands& commands) {
  auto machine = std::make_shared<MachineOptions>();
  auto name = std::make_shared<std::string>();
  CLI::App& app = commands.add(
      nullptr, "daemon", "become a daemon, with flags made from the configuration",
      "  # as the systemd units do\n  atoll daemon runner\n  atoll daemon control",
      [machine, name](const Globals& globals) { return become_daemon(*name, *machine, globals); });
  app.add_option("NAME", *name, "runner, gateway or control")->required();
  add_machine_options(commands, app, *machine, Declare::kAll);
  commands.hide(app);
}

}  // namespace atl::cli
