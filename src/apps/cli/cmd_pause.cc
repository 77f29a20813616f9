// SPDX-License-Identifier: Apache-2.0
//
// atoll pause, atoll resume: bring sandboxes to rest, and wake them.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "apps/cli/parse.h"
#include "apps/cli/registry.h"
#include "apps/cli/sandbox_api.h"
#include "base/text.h"
#include "model/sandbox.h"

namespace atl::cli {
namespace {

constexpr char kPauseExamples[] =
    "  atoll pause iabcdefghij0123456789\n"
    "  # keep only the disk; the sandbox boots anew when it is resumed\n"
    "  atoll pause --disk-only iabcdefghij0123456789";
constexpr char kResumeExamples[] =
    "  atoll resume iabcdefghij0123456789\n"
    "  atoll resume --lifetime 1h iabcdefghij0123456789";

struct Options {
  std::vector<std::string> sandboxes;
  bool disk_only = false;
  std::string lifetime = "5m";
};

Task<Result<void>> call_one(std::shared_ptr<ApiClient> api, std::string id, std::string path,
                            json::value body) {
  if (!model::valid_sandbox_id(id)) {
    co_return make_error(Code::kInvalid, "'{}' is not a sandbox id", printable(id))
        .with_hint("list ids with 'atoll ps'");
  }
  std::string target = "/sandboxes/" + id + path;
  auto reply = co_await api->call("POST", target, std::move(body));
  if (!reply.ok()) co_return std::move(reply).error();
  co_return success();
}

// Makes the same call for each; prints what was done.
Task<Result<int>> for_each(Session& session, std::vector<std::string> ids, std::string path, json::value body,
                           const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  json::array done;
  int status = kExitOk;
  for (const std::string& id : ids) {
    auto answer = co_await call_one(api, id, path, body);
    if (answer.ok()) {
      done.push_back(json::string(id));
      if (!globals.json) write_out(id + "\n");
    } else {
      print_error(answer.error(), globals.json);
      status = kExitAtoll;
    }
  }
  if (globals.json) print_json(json::object({{"done", done}}));
  co_return status;
}

Task<Result<int>> pause(Session& session, const Options& options, const Globals& globals) {
  json::value body = json::object({{"memory", !options.disk_only}});
  co_return co_await for_each(session, options.sandboxes, "/pause", std::move(body), globals);
}

Task<Result<int>> resume(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto lifetime, parse_duration(options.lifetime));
  json::value body = json::object({{"timeout", lifetime.count()}});
  co_return co_await for_each(session, options.sandboxes, "/connect", std::move(body), globals);
}

}  // namespace

void register_pause(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app =
      commands.add(nullptr, "pause", "bring sandboxes to rest", kPauseExamples,
                   [options](const Globals& globals) -> Result<int> {
                     return Session().run([&](Session& s) { return pause(s, *options, globals); });
                   });
  app.add_flag("--disk-only", options->disk_only, "keep the disk, not the memory and the processes");
  app.add_option("ID", options->sandboxes, "the sandboxes")->required();
}

void register_resume(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app =
      commands.add(nullptr, "resume", "wake paused sandboxes", kResumeExamples,
                   [options](const Globals& globals) -> Result<int> {
                     return Session().run([&](Session& s) { return resume(s, *options, globals); });
                   });
  app.add_option("--lifetime,--timeout", options->lifetime, "how long it lives from now on (default: 5m)");
  app.add_option("ID", options->sandboxes, "the sandboxes")->required();
}

}  // namespace atl::cli
