// SPDX-License-Identifier: Apache-2.0
//
// atoll snapshot: stored copies of the disks of sandboxes.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/api_client.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "apps/cli/parse.h"
#include "apps/cli/registry.h"
#include "base/text.h"

namespace atl::cli {
namespace {

struct Options {
  std::string sandbox, name;
  std::vector<std::string> snapshots;
  bool quiet = false;
};

Task<Result<int>> create(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  json::object body;
  if (!options.name.empty()) body["name"] = options.name;
  std::string path = "/sandboxes/" + http::percent_encode(options.sandbox) + "/snapshots";
  CO_TRY(ApiReply reply, co_await api->call("POST", path, json::value(body)));
  if (globals.json) {
    print_json(reply.body);
  } else {
    write_out(printable(text_at(reply.body, "snapshotID")) + "\n");
  }
  co_return kExitOk;
}

Task<Result<int>> list(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  CO_TRY(ApiReply reply, co_await api->call("GET", "/v1/snapshots"));
  const json::value* rows = find_at(reply.body, "snapshots");
  if (rows == nullptr || !rows->is_array())
    co_return make_error(Code::kCorrupt, "GET /v1/snapshots: no snapshots in the answer");
  if (globals.json) {
    print_json(*rows);
    co_return kExitOk;
  }
  Table table({"SNAPSHOT", "SANDBOX", "TEMPLATE", "ISOLATION", "SIZE", "USABLE", "CREATED"});
  for (const json::value& row : rows->as_array()) {
    if (options.quiet) write_out(printable(text_at(row, "snapshotID")) + "\n");
    table.add({printable(text_at(row, "snapshotID")), printable(text_at(row, "sandboxID")),
               printable(text_at(row, "template")), printable(text_at(row, "isolation")),
               format_bytes(static_cast<std::uint64_t>(number_at(row, "sizeBytes"))),
               flag_at(row, "usable") ? "yes" : "no", printable(text_at(row, "createdAt"))});
  }
  if (!options.quiet) print_table(table);
  co_return kExitOk;
}

Task<Result<int>> remove(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  json::array removed;
  int status = kExitOk;
  for (const std::string& snapshot : options.snapshots) {
    std::string path = "/v1/snapshots/" + http::percent_encode(snapshot);
    auto done = co_await api->call("DELETE", path);
    if (done.ok()) {
      removed.push_back(json::string(snapshot));
      if (!globals.json) write_out(printable(snapshot) + "\n");
    } else {
      print_error(done.error(), globals.json);
      status = kExitAtoll;
    }
  }
  if (globals.json) print_json(json::object({{"removed", removed}}));
  co_return status;
}

Task<Result<int>> collect(Session& session, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  CO_TRY(ApiReply reply, co_await api->call("POST", "/v1/snapshots/collect"));
  if (globals.json) {
    print_json(reply.body);
    co_return kExitOk;
  }
  auto bytes = static_cast<std::uint64_t>(number_at(reply.body, "bytes"));
  write_out(fmt::format("removed {} copies without a snapshot ({}), {} snapshots without a copy\n",
                        number_at(reply.body, "copies"), format_bytes(bytes),
                        number_at(reply.body, "snapshots")));
  co_return kExitOk;
}

void declare_create(Commands& commands, CLI::App& parent, std::shared_ptr<Options> options) {
  constexpr char kExamples[] =
      "  # the sandbox stands still for a moment and goes on\n"
      "  atoll snapshot create iabcdefghij0123456789 --name installed\n"
      "  atoll run -T installed ls";
  CLI::App& app =
      commands.add(&parent, "create", "store a copy of a sandbox's disk", kExamples,
                   [options](const Globals& globals) -> Result<int> {
                     return Session().run([&](Session& s) { return create(s, *options, globals); });
                   });
  app.add_option("ID", options->sandbox, "the sandbox")->required();
  app.add_option("--name", options->name,
                 "a name, NAME or NAME:TAG; moves here from the snapshot that has it")
      ->type_name("NAME");
}

}  // namespace

void register_snapshot(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app = commands.add(nullptr, "snapshot", "store copies of disks, to start sandboxes from",
                               "  atoll snapshot create ID\n  atoll snapshot list", nullptr);
  declare_create(commands, app, options);
  CLI::App& list_app =
      commands.add(&app, "list", "show the snapshots and what they take",
                   "  atoll snapshot list -q   # ids only", [options](const Globals& globals) -> Result<int> {
                     return Session().run([&](Session& s) { return list(s, *options, globals); });
                   });
  list_app.add_flag("-q,--quiet", options->quiet, "only ids");
  CLI::App& remove_app =
      commands.add(&app, "rm", "remove snapshots; sandboxes that were started from them go on",
                   "  atoll snapshot rm installed", [options](const Globals& globals) -> Result<int> {
                     return Session().run([&](Session& s) { return remove(s, *options, globals); });
                   });
  remove_app.add_option("SNAPSHOT", options->snapshots, "ids or names")->required();
  commands.add(&app, "gc", "remove what no snapshot names, and snapshots whose copy is gone",
               "  atoll snapshot gc", [](const Globals& globals) -> Result<int> {
                 return Session().run([&](Session& s) { return collect(s, globals); });
               });
}

}  // namespace atl::cli
