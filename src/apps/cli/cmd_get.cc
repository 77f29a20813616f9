// SPDX-License-Identifier: Apache-2.0
//
// atoll get: all about one sandbox. atoll idle: after how long without work it pauses.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "apps/cli/parse.h"
#include "apps/cli/registry.h"
#include "apps/cli/sandbox_api.h"
#include "base/text.h"
#include "base/units.h"
#include "model/sandbox.h"

namespace atl::cli {
namespace {

constexpr char kGetExamples[] =
    "  # state, limits, deadline, and why it is awake or asleep\n"
    "  atoll get iabcdefghij0123456789\n"
    "  # also of one that has ended\n"
    "  atoll get --json iabcdefghij0123456789";
constexpr char kIdleExamples[] =
    "  atoll idle iabcdefghij0123456789 10m\n"
    "  # awake until its deadline, whatever it does\n"
    "  atoll idle iabcdefghij0123456789 off";

struct Options {
  std::string sandbox, time;
};

Result<std::string> path_of(const std::string& id) {
  if (model::valid_sandbox_id(id)) return "/v1/sandboxes/" + id;
  return make_error(Code::kInvalid, "'{}' is not a sandbox id", printable(id))
      .with_hint("list ids with 'atoll ps'");
}

std::string bytes_at(const json::value& row, const char* key) {
  return format_bytes(static_cast<std::uint64_t>(number_at(row, key)));
}

void print_sandbox(const json::value& row) {
  auto line = [](std::string_view name, std::string_view value) {
    if (!value.empty()) write_out(fmt::format("{:<12} {}\n", name, printable(value)));
  };
  line("id", text_at(row, "id"));
  line("state", text_at(row, "state"));
  line("why", describe_activity(row, system_clock().now()));
  line("outcome", text_at(row, "outcome"));
  line("reason", text_at(row, "reason"));
  line("template", text_at(row, "template"));
  line("isolation", text_at(row, "isolation"));
  line("generation", fmt::format("{}", number_at(row, "generation")));
  line("started", text_at(row, "startedAt"));
  line("deadline", text_at(row, "deadline"));
  line("ended", text_at(row, "endedAt"));
  std::int64_t idle = number_at(row, "idleTimeout");
  line("idle timeout", idle > 0 ? format_duration(std::chrono::seconds(idle)) : "off");
  std::int64_t overhead = number_at(row, "overheadMB");
  std::string more = overhead > 0 ? fmt::format(" and {} MiB for its tier", overhead) : "";
  line("memory", bytes_at(row, "memoryBytes") + more);
  line("disk", bytes_at(row, "diskBytes"));
  line("cpus", fmt::format("{:g}", static_cast<double>(number_at(row, "cpuMillis")) / 1000));
}

Task<Result<int>> get(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(std::string path, path_of(options.sandbox));
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  CO_TRY(ApiReply reply, co_await api->call("GET", path));
  if (globals.json) print_json(reply.body);
  if (!globals.json) print_sandbox(reply.body);
  co_return kExitOk;
}

Task<Result<int>> idle(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(std::string path, path_of(options.sandbox));
  CO_TRY(auto time, parse_idle(options.time));
  if (!time) co_return make_error(Code::kInvalid, "say after how long, or 'off'").with_word("usage");
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  path += "/idle";
  json::value body = json::object({{"idleTimeout", time->count()}});
  CO_TRY(ApiReply reply, co_await api->call("PUT", path, std::move(body)));
  if (globals.json) print_json(reply.body);
  if (!globals.json) write_out(options.sandbox + "\n");
  co_return kExitOk;
}

}  // namespace

void register_get(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app = commands.add(nullptr, "get", "show all about a sandbox", kGetExamples,
                               [options](const Globals& globals) -> Result<int> {
                                 return Session().run([&](Session& s) { return get(s, *options, globals); });
                               });
  app.add_option("ID", options->sandbox, "the sandbox")->required();
}

void register_idle(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app = commands.add(nullptr, "idle", "set after how long without work a sandbox pauses",
                               kIdleExamples, [options](const Globals& globals) -> Result<int> {
                                 return Session().run([&](Session& s) { return idle(s, *options, globals); });
                               });
  app.add_option("ID", options->sandbox, "the sandbox")->required();
  app.add_option("TIME", options->time, "for example 10m, or 'off'")->required();
}

}  // namespace atl::cli
