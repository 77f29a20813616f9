// SPDX-License-Identifier: Apache-2.0
//
// atoll kill: end sandboxes.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "apps/cli/registry.h"
#include "apps/cli/sandbox_api.h"

namespace atl::cli {
namespace {

constexpr char kExamples[] =
    "  atoll kill iabcdefghij0123456789\n"
    "  # every sandbox of this key's owner\n"
    "  atoll kill --all";

struct Options {
  std::vector<std::string> sandboxes;
  bool all = false;
};

Task<Result<int>> kill(Session& session, const Options& options, const Globals& globals) {
  if (options.all != options.sandboxes.empty()) {
    co_return make_error(Code::kInvalid, "name the sandboxes to kill, or give --all (not both)")
        .with_word("usage");
  }
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  std::vector<std::string> ids = options.sandboxes;
  if (options.all) {
    CO_TRY(json::array list, co_await api->list("/v2/sandboxes?limit=100"));
    for (const json::value& sandbox : list) ids.push_back(text_at(sandbox, "sandboxID"));
  }
  Progress progress("killing");
  json::array killed;
  int status = kExitOk;
  for (const std::string& id : ids) {
    auto done = co_await kill_sandbox(api, id);
    if (done.ok()) {
      killed.push_back(json::string(id));
      if (!globals.json) write_out(id + "\n");
    } else if (!(options.all &&
                 done.error().code() == Code::kNotFound)) {  // with --all, one that has just ended is fine
      progress.clear();
      print_error(done.error(), globals.json);
      status = kExitAtoll;
    }
    progress.update(fmt::format("{} of {}", killed.size(), ids.size()));
  }
  progress.clear();
  if (globals.json) print_json(json::object({{"killed", killed}}));
  co_return status;
}

}  // namespace

void register_kill(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app = commands.add(nullptr, "kill", "end sandboxes at once", kExamples,
                               [options](const Globals& globals) -> Result<int> {
                                 return Session().run([&](Session& s) { return kill(s, *options, globals); });
                               });
  app.add_flag("--all", options->all, "end all sandboxes of this key's owner");
  app.add_option("ID", options->sandboxes, "the sandboxes");
}

}  // namespace atl::cli
