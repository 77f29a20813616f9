// SPDX-License-Identifier: Apache-2.0
//
// atoll cp: files and directories between this machine and a sandbox.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/copy.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "apps/cli/path_spec.h"
#include "apps/cli/registry.h"

namespace atl::cli {
namespace {

constexpr char kExamples[] =
    "  # a file into a sandbox, and a directory out of it\n"
    "  atoll cp data.csv iabcdefghij0123456789:/home/user/\n"
    "  atoll cp iabcdefghij0123456789:results ./results\n"
    "  # through pipes\n"
    "  tar cz src | atoll cp - iabcdefghij0123456789:src.tgz\n"
    "  atoll cp iabcdefghij0123456789:/etc/os-release - | head -1\n"
    "\n"
    "  A path without a slash in front is below the sandbox's home directory. Directories are copied whole;\n"
    "  an existing target directory takes the source's name below it.";

struct Options {
  std::string from, to, user;
  bool recursive = false;  // accepted because fingers type it; directories are always copied whole
};

// One of the operands is in the sandbox.
Task<Result<CopyCount>> copy_task(std::shared_ptr<GuestClient> guest, const PathSpec& from,
                                  const PathSpec& to) {
  using Kind = PathSpec::Kind;
  if (to.kind == Kind::kStdio) return copy_to_stdout(guest, from.path);
  if (from.kind == Kind::kStdio) return copy_from_stdin(guest, to.path);
  if (from.kind == Kind::kSandbox) return copy_out_of_sandbox(guest, from.path, to.path);
  return copy_into_sandbox(guest, from.path, to.path);
}

Task<Result<int>> copy(Session& session, const Options& options, const Globals& globals) {
  using Kind = PathSpec::Kind;
  CO_TRY(PathSpec from, parse_path_spec(options.from));
  CO_TRY(PathSpec to, parse_path_spec(options.to));
  bool out = from.kind == Kind::kSandbox;
  if (out == (to.kind == Kind::kSandbox)) {
    Error error(Code::kInvalid, out ? "both operands are in a sandbox" : "no operand is in a sandbox");
    co_return std::move(error).with_word("usage").with_hint(
        out ? "go through a pipe: atoll cp ID1:file - | atoll cp - ID2:file"
            : "write ID:PATH for one of them");
  }
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  const std::string& id = out ? from.sandbox : to.sandbox;
  CO_TRY(auto guest, co_await GuestClient::open(api, id, options.user));
  auto task = copy_task(guest, from, to);
  auto count = co_await std::move(task);
  if (!count.ok()) co_return std::move(count).error();
  if (globals.json && to.kind != Kind::kStdio) {
    print_json(json::object({{"files", count->files},
                             {"directories", count->directories},
                             {"bytes", count->bytes},
                             {"skipped", count->skipped}}));
  }
  co_return count->skipped > 0 ? kExitUnhealthy : kExitOk;
}

}  // namespace

void register_cp(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app = commands.add(nullptr, "cp", "copy files between this machine and a sandbox", kExamples,
                               [options](const Globals& globals) -> Result<int> {
                                 return Session().run([&](Session& s) { return copy(s, *options, globals); });
                               });
  app.add_option("-u,--user", options->user, "user in the sandbox")->type_name("NAME");
  app.add_flag("-r,-R,--recursive", options->recursive,
               "allowed for habit's sake: directories are always copied whole");
  app.add_option("FROM", options->from, "a local path, ID:PATH, or - for standard input")->required();
  app.add_option("TO", options->to, "a local path, ID:PATH, or - for standard output")->required();
}

}  // namespace atl::cli
