// SPDX-License-Identifier: Apache-2.0
//
// atoll down: stop sandboxes and daemons, and look whether anything is left.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/machine.h"
#include "apps/cli/output.h"
#include "apps/cli/parse.h"
#include "apps/cli/registry.h"
#include "apps/cli/take_down.h"

namespace atl::cli {
namespace {

constexpr char kExamples[] =
    "  # stop everything; what is kept in the data directory stays\n"
    "  sudo atoll down\n"
    "  # for an upgrade: sandboxes go on, the next 'atoll up' serves them again\n"
    "  sudo atoll down --keep && sudo apt-get install ./atoll_*.deb && sudo atoll up";

struct Options {
  MachineOptions machine;
  bool keep = false;
};

void show(const DownReport& report, const std::string& run_dir, bool keep) {
  if (!report.was_running && report.stopped_sandboxes == 0)
    print_note("Atoll was not running, as far as " + run_dir + " tells");
  for (const std::string& name : report.stopped_daemons) write_out("stopped " + name + "\n");
  if (report.stopped_sandboxes > 0)
    write_out("stopped " + format_count(report.stopped_sandboxes, "sandbox") + "\n");
  if (keep) {
    write_out(format_count(report.kept_sandboxes, "sandbox") +
              " left running; 'sudo atoll up' serves them again\n");
  } else if (report.leftovers.empty()) {
    write_out("nothing is left: no process, cgroup, network link, firewall rule, mount or loop device\n");
  }
  for (const std::string& line : report.leftovers) write_err("left over: " + line + "\n");
}

Result<int> down(const Options& options, const Globals& globals) {
  TRY_VOID(require_root("atoll down"));
  MachineOptions machine = options.machine;
  recall_folders(machine, globals.instance);
  TRY(Config config, resolve_config(machine, globals));
  Progress progress("atoll down");
  TRY(DownReport report, take_down(config, options.keep ? Sandboxes::kKeep : Sandboxes::kStop,
                                   [&](const std::string& step) { progress.update(step); }));
  progress.clear();
  if (globals.json) {
    print_json(json::object({{"was_running", report.was_running},
                             {"stopped_daemons", json::value_from(report.stopped_daemons)},
                             {"stopped_sandboxes", report.stopped_sandboxes},
                             {"kept_sandboxes", report.kept_sandboxes},
                             {"left_over", json::value_from(report.leftovers)}}));
  } else {
    show(report, config.run_dir, options.keep);
  }
  return report.leftovers.empty() ? kExitOk : kExitUnhealthy;
}

}  // namespace

void register_down(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app = commands.add(nullptr, "down", "stop Atoll on this machine", kExamples,
                               [options](const Globals& globals) { return down(*options, globals); });
  app.add_flag("--keep", options->keep, "leave the sandboxes running");
  add_machine_options(commands, app, options->machine, Declare::kAll);
}

}  // namespace atl::cli
