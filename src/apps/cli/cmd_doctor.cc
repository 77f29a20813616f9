// SPDX-License-Identifier: Apache-2.0
//
// atoll doctor: tries what Atoll needs, and says what to do about each thing that is missing.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/api_client.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/machine.h"
#include "apps/cli/output.h"
#include "apps/cli/parse.h"
#include "apps/cli/probes.h"
#include "apps/cli/registry.h"
#include "base/text.h"

namespace atl::cli {
namespace {

constexpr char kExamples[] =
    "  # before or after 'atoll up'; exit status 1 when the default tier cannot work here\n"
    "  sudo atoll doctor\n"
    "  # only what is wrong\n"
    "  sudo atoll doctor --json | jq '.[] | select(.state != \"ok\")'";

struct Options {
  MachineOptions machine;
};

// What the API says of the host, in the shape of findings. The runner is asked through control, because a
// connection of our own would take control's place.
Task<Result<int>> ask_service(Session& session, const std::string& instance, const Config& config,
                              std::vector<Finding>& out) {
  auto api = ApiClient::open(session, instance);
  if (!api.ok()) {
    out.push_back({"service", Finding::State::kSkipped, api.error().message(), api.error().hint()});
    co_return kExitOk;
  }
  auto host = co_await (*api)->call("GET", "/v1/host");
  if (!host.ok()) {
    bool down = host.error().word() == "unreachable";
    out.push_back({"service", down ? Finding::State::kSkipped : Finding::State::kFailed,
                   host.error().message(), host.error().hint()});
    co_return kExitOk;
  }
  out.push_back({"service", Finding::State::kOk, "answers at " + (*api)->target().api_url, ""});
  // A member's key may not ask for it; then what was tried here has to do.
  auto posture = co_await (*api)->call("GET", "/v1/host/posture");
  if (posture.ok()) merge_posture(out, posture->body, default_tier_of(config));
  for (Finding& finding : host_findings(host->body)) out.push_back(std::move(finding));
  CO_TRY(ApiReply templates, co_await (*api)->call("GET", "/v1/templates"));
  const json::value* list = find_at(templates.body, "templates");
  bool any = list != nullptr && list->is_array() && !list->as_array().empty();
  out.push_back({"templates", any ? Finding::State::kOk : Finding::State::kWarning,
                 any ? "there is at least one" : "there is none",
                 any ? "" : "'sudo atoll up' builds the template 'base'"});
  co_return kExitOk;
}

void show(const std::vector<Finding>& findings) {
  using State = Finding::State;
  for (const Finding& finding : findings) {
    Colour colour = finding.state == State::kOk       ? Colour::kGreen
                    : finding.state == State::kFailed ? Colour::kRed
                                                      : Colour::kYellow;
    write_out(fmt::format("{} {:28} {}\n",
                          paint(STDOUT_FILENO, colour, fmt::format("{:8}", state_word(finding.state))),
                          finding.name, printable(finding.detail)));
    if (!finding.remedy.empty()) write_out(fmt::format("{:9}→ {}\n", "", finding.remedy));
  }
}

json::value findings_json(const std::vector<Finding>& findings) {
  json::array out;
  for (const Finding& finding : findings) {
    json::object item{
        {"name", finding.name}, {"state", state_word(finding.state)}, {"detail", finding.detail}};
    if (!finding.remedy.empty()) item["remedy"] = finding.remedy;
    out.push_back(std::move(item));
  }
  return out;
}

Result<int> doctor(const Options& options, const Globals& globals) {
  MachineOptions machine = options.machine;
  recall_folders(machine, globals.instance);
  TRY(Config config, resolve_config(machine, globals));
  std::vector<Finding> findings = probe_kernel(config);  // forks, so before the session has a thread
  for (Finding& finding : probe_machine(config)) findings.push_back(std::move(finding));
  TRY(int asked, Session().run([&](Session& session) {
    return ask_service(session, globals.instance, config, findings);
  }));
  std::size_t failed = 0;
  for (const Finding& finding : findings) failed += finding.state == Finding::State::kFailed ? 1 : 0;
  if (globals.json)
    print_json(findings_json(findings));
  else
    show(findings);
  if (!globals.json && failed > 0)
    write_err(format_count(failed, "check") + " failed: sandboxes cannot be started as they should\n");
  return failed > 0 ? kExitUnhealthy : asked;
}

}  // namespace

void register_doctor(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app =
      commands.add(nullptr, "doctor", "check what this machine can do, and what to mend", kExamples,
                   [options](const Globals& globals) { return doctor(*options, globals); });
  add_machine_options(commands, app, options->machine, Declare::kAll);
}

}  // namespace atl::cli
