// SPDX-License-Identifier: Apache-2.0
//
// atoll ls: what a directory in a sandbox holds.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/guest_client.h"
#include "apps/cli/output.h"
#include "apps/cli/parse.h"
#include "apps/cli/path_spec.h"
#include "apps/cli/registry.h"
#include "base/text.h"

namespace atl::cli {
namespace {

constexpr char kExamples[] =
    "  # the home directory, then everything below /etc to a depth of two\n"
    "  atoll ls iabcdefghij0123456789:\n"
    "  atoll ls -l --depth 2 iabcdefghij0123456789:/etc";

struct Options {
  std::string where, user;
  unsigned depth = 1;
  bool details = false;
};

json::value entry_json(const RemoteEntry& entry) {
  json::object out{{"name", entry.name},
                   {"path", entry.path},
                   {"type", entry.directory ? "directory" : "file"},
                   {"size", entry.size},
                   {"mode", fmt::format("{:04o}", entry.mode)},
                   {"owner", entry.owner},
                   {"group", entry.group},
                   {"modified", entry.modified}};
  if (!entry.link_target.empty()) out["link_target"] = entry.link_target;
  return out;
}

// The name as shown: below the listed directory when deeper entries are asked for.
std::string shown_name(const RemoteEntry& entry, const std::string& base, unsigned depth) {
  std::string name = entry.name;
  if (depth > 1 && entry.path.starts_with(base + "/")) name = entry.path.substr(base.size() + 1);
  name = printable(name);
  if (!entry.link_target.empty()) return name + " -> " + printable(entry.link_target);
  return entry.directory ? paint(STDOUT_FILENO, Colour::kBold, name + "/") : name;
}

Task<Result<int>> list(Session& session, const Options& options, const Globals& globals) {
  // A bare id means its home directory; nothing local can be meant here.
  bool bare = options.where.find(':') == std::string::npos;
  CO_TRY(PathSpec where, parse_path_spec(bare ? options.where + ":" : options.where));
  if (where.kind != PathSpec::Kind::kSandbox)
    co_return make_error(Code::kInvalid, "write ID:PATH").with_word("usage");
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  CO_TRY(auto guest, co_await GuestClient::open(api, where.sandbox, options.user));
  CO_TRY(RemoteEntry base, co_await guest->stat(where.path));
  std::vector<RemoteEntry> entries;
  if (base.directory) {
    CO_TRY(entries, co_await guest->list(where.path, options.depth));
  } else {
    entries.push_back(base);
  }
  if (globals.json) {
    json::array out;
    for (const RemoteEntry& entry : entries) out.push_back(entry_json(entry));
    print_json(out);
    co_return kExitOk;
  }
  Table table({"MODE", "OWNER", "GROUP", "SIZE", "MODIFIED", "NAME"});
  for (const RemoteEntry& entry : entries) {
    std::string name = shown_name(entry, base.path, options.depth);
    if (!options.details) write_out(name + "\n");
    table.add({printable(entry.permissions), printable(entry.owner), printable(entry.group),
               fmt::format("{}", entry.size), printable(entry.modified.substr(0, 19)), name});
  }
  if (options.details) print_table(table);
  co_return kExitOk;
}

}  // namespace

void register_ls(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app = commands.add(nullptr, "ls", "list files in a sandbox", kExamples,
                               [options](const Globals& globals) -> Result<int> {
                                 return Session().run([&](Session& s) { return list(s, *options, globals); });
                               });
  app.add_option("-u,--user", options->user, "user in the sandbox")->type_name("NAME");
  app.add_option("--depth", options->depth, "levels of directories to show (default: 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 64));
  app.add_flag("-l", options->details, "with mode, owner, size and time");
  app.add_option("WHERE", options->where, "ID or ID:PATH")->required();
}

}  // namespace atl::cli
