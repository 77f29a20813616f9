// SPDX-License-Identifier: Apache-2.0
//
// atoll template: what sandboxes start from.
#include <unistd.h>

#include <filesystem>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/build_wanted.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/isolation_rule.h"
#include "apps/cli/machine.h"
#include "apps/cli/output.h"
#include "apps/cli/parse.h"
#include "apps/cli/registry.h"
#include "apps/cli/template_build.h"
#include "base/text.h"
#include "base/units.h"

namespace atl::cli {
namespace {

struct Options {
  std::string name, from, user, workdir, memory, disk, cpus, idle_timeout;
  IsolationChange isolation;
  std::vector<std::string> env;
  std::optional<std::uint32_t> ready;
  bool fresh = false;
  bool quiet = false;
  MachineOptions machine;
};

std::string alias_of(const json::value& row) {
  const json::value* names = find_at(row, "names");
  bool named = names != nullptr && names->is_array() && !names->as_array().empty() &&
               names->as_array().front().is_string();
  return named ? std::string(names->as_array().front().as_string()) : text_at(row, "templateID");
}

Result<json::array> rows_of(const ApiReply& reply) {
  const json::value* rows = find_at(reply.body, "templates");
  if (rows == nullptr || !rows->is_array())
    return make_error(Code::kCorrupt, "GET /v1/templates: no templates in the answer");
  return rows->as_array();
}

Task<Result<int>> list(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  CO_TRY(ApiReply reply, co_await api->call("GET", "/v1/templates"));
  CO_TRY(json::array rows, rows_of(reply));
  if (globals.json) {
    print_json(rows);
    co_return kExitOk;
  }
  Table table({"NAME", "ID", "CPU", "MEMORY", "DISK", "READY", "ISOLATION", "BUILD", "UPDATED"});
  for (const json::value& row : rows) {
    if (options.quiet) {
      write_out(printable(alias_of(row)) + "\n");
      continue;
    }
    table.add({printable(alias_of(row)), printable(text_at(row, "templateID")),
               fmt::format("{}", number_at(row, "cpuCount")),
               format_bytes(static_cast<std::uint64_t>(number_at(row, "memoryMB")) * kMiB),
               format_bytes(static_cast<std::uint64_t>(number_at(row, "diskSizeMB")) * kMiB),
               fmt::format("{}", number_at(row, "poolSize")), printable(rule_text(row)),
               printable(text_at(row, "buildID")), printable(text_at(row, "updatedAt"))});
  }
  if (!options.quiet) print_table(table);
  for (const std::string& line : build_lines(reply.body)) print_note(line);
  co_return kExitOk;
}

Task<Result<int>> remove(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  CO_TRY(ApiReply reply, co_await api->call("GET", "/v1/templates"));
  CO_TRY(json::array rows, rows_of(reply));
  for (const json::value& row : rows) {
    std::string id = text_at(row, "templateID");
    if (id != options.name && alias_of(row) != options.name) continue;
    std::string path = "/v1/templates/" + http::percent_encode(id);
    CO_TRY(ApiReply done, co_await api->call("DELETE", path));
    if (globals.json)
      print_json(json::object({{"removed", id}, {"name", alias_of(row)}}));
    else
      write_out(fmt::format("removed {}\n", alias_of(row)));
    co_return kExitOk;
  }
  co_return make_error(Code::kNotFound, "there is no template '{}'", printable(options.name))
      .with_hint("list them with 'atoll template list'");
}

Task<Result<int>> set(Session& session, const Options& options, const Globals& globals) {
  json::object change;
  if (options.ready) change["poolSize"] = *options.ready;
  put_isolation(change, options.isolation);
  if (change.empty()) {
    co_return make_error(Code::kInvalid, "say what to change")
        .with_word("usage")
        .with_hint("give --ready, --isolation or --min-isolation");
  }
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  std::string path = "/v1/templates/" + http::percent_encode(options.name);
  json::value body = std::move(change);
  CO_TRY(ApiReply reply, co_await api->call("PATCH", path, std::move(body)));
  if (globals.json)
    print_json(reply.body);
  else
    write_out(fmt::format("{}: isolation {}, {} kept ready\n", printable(alias_of(reply.body)),
                          printable(rule_text(reply.body)), number_at(reply.body, "poolSize")));
  co_return kExitOk;
}

Result<Registration> make_registration(const Options& options) {
  Registration registration;
  registration.name = options.name;
  registration.user = options.user;
  registration.workdir = options.workdir;
  registration.ready = options.ready;
  registration.isolation = options.isolation;
  TRY(registration.environment, parse_env(options.env));
  TRY(registration.idle_timeout, parse_idle(options.idle_timeout));
  if (!options.memory.empty()) {
    TRY(std::uint64_t bytes, parse_size(options.memory));
    registration.memory_mib = bytes / kMiB;
  }
  if (!options.disk.empty()) {
    TRY(std::uint64_t bytes, parse_size(options.disk));
    registration.disk_mib = bytes / kMiB;
  }
  if (!options.cpus.empty()) {
    double cores = std::strtod(options.cpus.c_str(), nullptr);
    if (!(cores >= 0.01 && cores <= 1024))
      return make_error(Code::kInvalid, "--cpus {} is no number of cores", printable(options.cpus));
    registration.cpu_millis = static_cast<std::uint64_t>(cores * 1000);
  }
  return registration;
}

Task<Result<int>> register_it(Session& session, std::string instance, Registration registration,
                              std::string build) {
  CO_TRY(auto api, ApiClient::open(session, instance));
  CO_TRY(bool changed, co_await register_build(api, std::move(registration), std::move(build)));
  co_return changed ? 1 : 0;
}

// Whether the one that the build is for answers, and to an administrator: known before minutes of work.
Result<void> look_for_atoll(const Globals& globals) {
  auto ask = [&](Session& session) -> Task<Result<int>> {
    CO_TRY(auto api, ApiClient::open(session, globals.instance));
    CO_TRY(ApiReply status, co_await api->call("GET", "/v1/status"));
    co_return status.status;
  };
  TRY_VOID(Session().run(ask));
  return success();
}

std::vector<std::string> builder_arguments(const Options& options, const Config& config) {
  std::vector<std::string> arguments{"build-known"};
  if (!options.from.empty()) {
    std::error_code failure;
    arguments = {"build", "--from", std::filesystem::absolute(options.from, failure).string()};
  }
  for (std::string_view each : {std::string_view("--name"), std::string_view(options.name),
                                std::string_view("--data-dir"), std::string_view(config.data_dir)})
    arguments.emplace_back(each);
  if (options.fresh) arguments.emplace_back("--fresh");
  return arguments;
}

Result<int> build(const Options& options, const Globals& globals) {
  TRY_VOID(require_root("atoll template build"));
  TRY(Registration registration, make_registration(options));
  TRY_VOID(look_for_atoll(globals));
  TRY(Target target, find_target(globals.instance));
  MachineOptions machine = options.machine;
  // A build belongs into the folder of the installation that it is registered with.
  if (machine.data_dir.empty()) machine.data_dir = target.data_dir;
  TRY(Config config, resolve_config(machine, globals));
  Progress progress(fmt::format("building the template '{}'", options.name));
  auto on_progress = [&](int percent, const std::string& text) {
    progress.update(fmt::format("{} % {}", percent, text));
  };
  TRY(BuildResult built,
      run_builder(builder_arguments(options, config), config.data_dir + "/log/template.log", on_progress));
  progress.clear();
  registration.first_memory_mib = built.memory_mib;
  TRY(int changed,
      Session().run([&](Session& s) { return register_it(s, globals.instance, registration, built.build); }));
  TRY_VOID(forget_build_note(config.data_dir, options.name));
  if (globals.json) {
    print_json(json::object({{"name", options.name},
                             {"build", built.build},
                             {"size_bytes", built.size_bytes},
                             {"changed", changed != 0}}));
  } else {
    write_out(
        fmt::format("{} is build {} ({})\n", options.name, built.build, format_bytes(built.size_bytes)));
  }
  return kExitOk;
}

void add_ready(CLI::App& app, Options& options, const char* text) {
  app.add_option("--ready", options.ready, text)->type_name("N");
}

void declare_build(Commands& commands, CLI::App& parent, std::shared_ptr<Options> options) {
  constexpr char kExamples[] =
      "  # one that Atoll knows, from Debian's packages: code-interpreter-v1 (some minutes), base\n"
      "  sudo atoll template build code-interpreter-v1 --ready 2\n"
      "  # from a root file system in a folder or a tar archive (gzip, bzip2, xz, zstd)\n"
      "  sudo atoll template build tools --from ./rootfs\n"
      "  docker export $(docker create debian:12) | zstd > debian.tar.zst\n"
      "  sudo atoll template build debian --from debian.tar.zst --user root --workdir /root --memory 2G";
  CLI::App& app =
      commands.add(&parent, "build", "make a template: one that Atoll knows, or from a folder or a tarball",
                   kExamples, [options](const Globals& globals) { return build(*options, globals); });
  app.add_option("NAME", options->name, "the template's name")->required();
  app.add_option(
         "--from", options->from,
         "folder or tar archive with a root file system; without it the template is one that Atoll knows")
      ->type_name("PATH");
  app.add_flag("--fresh", options->fresh,
               "build one that Atoll knows again, to take in updates of its packages");
  app.add_option("--user", options->user, "user of commands (default: user)")->type_name("NAME");
  app.add_option("--workdir", options->workdir, "directory of commands (default: /home/user)")
      ->type_name("DIR");
  commands.add_list(app, "-e,--env", "KEY=VALUE", &options->env, "a variable in every sandbox");
  app.add_option("--memory", options->memory, "memory of a sandbox (default: 1G)")->type_name("SIZE");
  app.add_option("--disk", options->disk, "writable disk of a sandbox (default: 4G)")->type_name("SIZE");
  app.add_option("--cpus", options->cpus, "cores of a sandbox (default: 2)")->type_name("N");
  add_ready(app, *options, "sandboxes kept ready (default: 0, or as many as before)");
  add_isolation_change(app, options->isolation);
  app.add_option("--idle-timeout", options->idle_timeout,
                 "pause its sandboxes after this time without work (default: off)")
      ->type_name("TIME");
  add_machine_options(commands, app, options->machine, Declare::kPaths);
}

}  // namespace

void register_template(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app =
      commands.add(nullptr, "template", "list, build, change and remove templates",
                   "  atoll template list\n  sudo atoll template build NAME --from FOLDER", nullptr);
  CLI::App& list_app =
      commands.add(&app, "list", "show the templates", "  atoll template list -q   # names only",
                   [options](const Globals& globals) -> Result<int> {
                     return Session().run([&](Session& s) { return list(s, *options, globals); });
                   });
  list_app.add_flag("-q,--quiet", options->quiet, "only names");
  declare_build(commands, app, options);
  CLI::App& set_app =
      commands.add(&app, "set", "say which isolation its sandboxes get, and how many are kept ready",
                   "  # a default for those who ask for none, and what nobody gets less than\n"
                   "  atoll template set tools --isolation medium --min-isolation container\n"
                   "  atoll template set tools --ready 4",
                   [options](const Globals& globals) -> Result<int> {
                     return Session().run([&](Session& s) { return set(s, *options, globals); });
                   });
  set_app.add_option("NAME", options->name, "its name or id")->required();
  add_ready(set_app, *options, "sandboxes kept ready");
  add_isolation_change(set_app, options->isolation);
  CLI::App& remove_app =
      commands.add(&app, "remove", "forget a template; sandboxes that run go on",
                   "  atoll template remove tools", [options](const Globals& globals) -> Result<int> {
                     return Session().run([&](Session& s) { return remove(s, *options, globals); });
                   });
  remove_app.add_option("NAME", options->name, "its name or id")->required();
}

}  // namespace atl::cli
