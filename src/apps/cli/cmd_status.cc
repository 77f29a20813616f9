// SPDX-License-Identifier: Apache-2.0
//
// atoll status: what runs, and how well.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/api_client.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/machine.h"
#include "apps/cli/output.h"
#include "apps/cli/parse.h"
#include "apps/cli/registry.h"
#include "apps/cli/template_build.h"
#include "base/text.h"

namespace atl::cli {
namespace {

constexpr char kExamples[] =
    "  atoll status\n"
    "  # for a monitor: exit status 0 when all is well, 1 when something is missing, 125 when nothing "
    "answers\n"
    "  atoll status --json > /dev/null";

std::string joined(const json::value& parent, std::string_view key) {
  const json::value* list = find_at(parent, key);
  std::string out;
  if (list == nullptr || !list->is_array()) return "none";
  for (const json::value& item : list->as_array()) {
    if (item.is_string()) out += (out.empty() ? "" : ", ") + printable(std::string_view(item.as_string()));
  }
  return out.empty() ? "none" : out;
}

std::string line(std::string_view name, std::string_view value) {
  return fmt::format("{:<12}{}\n", name, value);
}

std::string daemon_lines(const Result<SupervisorState>& state) {
  if (!state.ok()) return line("supervisor", "none here (systemd, or another machine)");
  std::string out =
      line("supervisor", is_running(state->process) ? fmt::format("pid {}", state->process.pid) : "dead");
  for (const DaemonState& daemon : state->daemons) {
    auto up = std::chrono::duration_cast<std::chrono::seconds>(system_clock().now() - daemon.since);
    std::string text = is_running(daemon.process)
                           ? fmt::format("pid {}, up {}", daemon.process.pid, format_duration(up))
                           : "down";
    if (daemon.restarts > 0) text += fmt::format(", restarted {} times", daemon.restarts);
    out += line(daemon.name, text);
  }
  return out;
}

// What /v1/status says; a member's key may not ask, which is no failure of Atoll's.
std::string service_lines(const json::value& status) {
  const json::value empty = json::object();
  const json::value& runner = find_at(status, "runner") != nullptr ? *find_at(status, "runner") : empty;
  const json::value& counts = find_at(status, "sandboxes") != nullptr ? *find_at(status, "sandboxes") : empty;
  const json::value& host = find_at(status, "host") != nullptr ? *find_at(status, "host") : empty;
  std::string out;
  bool connected = flag_at(runner, "connected");
  out += line("version", fmt::format("control {}, runner {}", printable(text_at(status, "version")),
                                     connected ? printable(text_at(runner, "version")) : "not connected"));
  out += line("domain", printable(text_at(status, "domain")));
  std::string setting = text_at(host, "defaultIsolation"),
              in_force = text_at(host, "defaultInForce", "unknown");
  std::string tested = joined(host, "beingTested");
  out += line("tiers", fmt::format("{}; default {}{}", joined(host, "isolation"),
                                   printable(setting == in_force ? setting : setting + ", now " + in_force),
                                   tested == "none" ? "" : "; being tested: " + tested));
  out +=
      line("posture", fmt::format("cgroups {}, Landlock {}, missing: {}", printable(text_at(host, "cgroups")),
                                  number_at(host, "landlockAbi"), joined(host, "missingLayers")));
  out += line("slots",
              fmt::format("{} free of {}", number_at(runner, "slotsFree"), number_at(runner, "slotsTotal")));
  out += line("sandboxes", fmt::format("{} running, {} ready, {} ending, at most {}",
                                       number_at(counts, "running"), number_at(counts, "ready"),
                                       number_at(counts, "ending"), number_at(counts, "limit")));
  out += line("templates", fmt::format("{}", number_at(status, "templates")));
  for (const std::string& build : build_lines(status)) out += line("", build);
  return out;
}

Task<Result<int>> status(Session& session, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  const std::string& run_dir = api->target().run_dir;
  auto state = run_dir.empty() ? Result<SupervisorState>(make_error(Code::kNotFound, "elsewhere"))
                               : load_state(run_dir);
  auto reply = co_await api->call("GET", "/v1/status");
  bool denied = !reply.ok() && reply.error().code() == Code::kDenied;
  if (denied) reply = co_await api->call("GET", "/health");
  if (!reply.ok()) co_return std::move(reply).error();
  const json::value* runner = find_at(reply->body, "runner");
  bool well = denied || (runner != nullptr && flag_at(*runner, "connected"));
  if (globals.json) {
    json::object out{{"healthy", well}, {"api_url", api->target().api_url}, {"status", reply->body}};
    if (state.ok()) out["daemons"] = json::parse(state_json(*state));
    print_json(out);
    co_return well ? kExitOk : kExitUnhealthy;
  }
  std::string verdict = well ? paint(STDOUT_FILENO, Colour::kGreen, "serving")
                             : paint(STDOUT_FILENO, Colour::kRed, "degraded: the runner is not connected");
  write_out(line("atoll", fmt::format("{} at {}", verdict, api->target().api_url)));
  write_out(daemon_lines(state));
  if (denied)
    print_note("this key is no admin's, so only the answer itself can be told");
  else
    write_out(service_lines(reply->body));
  co_return well ? kExitOk : kExitUnhealthy;
}

}  // namespace

void register_status(Commands& commands) {
  commands.add(nullptr, "status", "show what runs and how well", kExamples,
               [](const Globals& globals) -> Result<int> {
                 return Session().run([&](Session& s) { return status(s, globals); });
               });
}

}  // namespace atl::cli
