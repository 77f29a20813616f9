// SPDX-License-Identifier: Apache-2.0
//
// Hidden: `atoll build-wanted` is what the supervisor, or the unit atoll-build.service, starts when a
// template is asked for that Atoll knows and that is not there yet.
#include <poll.h>

#include <algorithm>

#include <CLI/CLI.hpp>

#include "apps/cli/bring_up.h"
#include "apps/cli/build_wanted.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/machine.h"
#include "apps/cli/registry.h"
#include "base/log.h"
#include "model/known_templates.h"

namespace atl::cli {
namespace {

// Control may be being started again while a build ends.
constexpr unsigned kTellTries = 60;
constexpr Millis kTellAgain(1000);
// A pool for a template that somebody has just asked for; each holds an interpreter in memory.
constexpr std::uint32_t kReady = 1;

using Entered = BuildWantedOptions::Entered;

Task<Result<int>> enter_once(Session& session, Target target, Registration registration, std::string build) {
  CO_TRY(Url url, parse_url(target.api_url));
  auto api = std::make_shared<ApiClient>(session, target, url, url);
  CO_TRY_VOID(co_await register_build(api, std::move(registration), std::move(build)));
  co_return 0;
}

// Whoever has made a template of this name meanwhile keeps it: control decides that in one step.
Result<Entered> enter(const Config& config, const std::string& name, const BuildResult& built) {
  Registration registration;
  registration.name = name;
  registration.first_ready = std::min(config.ready_sandboxes, kReady);
  registration.first_memory_mib = built.memory_mib;
  registration.replace = false;
  Result<int> done = make_error(Code::kInternal, "not tried");
  for (unsigned n = 0; n < kTellTries; ++n) {
    if (n > 0) ::poll(nullptr, 0, static_cast<int>(kTellAgain.count()));
    auto target = bootstrap_target(config);
    done = target.ok() ? Session().run([&](Session& session) {
      return enter_once(session, *target, registration, built.build);
    })
                       : Result<int>(target.error());
    if (done.ok()) return Entered::kNow;
    if (done.error().word() == "template_exists") return Entered::kKept;
    if (done.error().code() == Code::kInvalid || done.error().code() == Code::kConflict) break;
  }
  return std::move(done).error().context("the build is there, but control cannot be told of it");
}

Result<int> run(const MachineOptions& machine, const Globals& globals) {
  TRY_VOID(require_root("atoll build-wanted"));
  TRY(Config config, resolve_config(machine, globals));
  log::set_program("atoll-builder");
  BuildWantedOptions options;
  options.data_dir = config.data_dir;
  options.allowed = config.first_use;
  for (std::string_view name : model::kFirstUseTemplates) options.names.emplace_back(name);
  options.build = [&](const std::string& name, const OnProgress& on_progress) {
    return run_builder({"build-known", "--name", name, "--data-dir", config.data_dir},
                       config.data_dir + "/log/template.log", on_progress);
  };
  options.enter = [&](const std::string& name, const BuildResult& built) {
    return enter(config, name, built);
  };
  TRY_VOID(build_wanted(options, system_clock()));
  return kExitOk;
}

}  // namespace

void register_build_wanted(Commands& commands) {
  auto machine = std::make_shared<MachineOptions>();
  CLI::App& app =
      commands.add(nullptr, "build-wanted", "build the templates that were asked for and are not there", "",
                   [machine](const Globals& globals) { return run(*machine, globals); });
  add_machine_options(commands, app, *machine, Declare::kAll);
  commands.hide(app);
}

}  // namespace atl::cli
