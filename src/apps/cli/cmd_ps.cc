// SPDX-License-Identifier: Apache-2.0
//
// atoll ps: the sandboxes, or the processes of one.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/guest_client.h"
#include "apps/cli/output.h"
#include "apps/cli/parse.h"
#include "apps/cli/registry.h"
#include "apps/cli/sandbox_api.h"
#include "apps/cli/shell_quote.h"
#include "base/text.h"
#include "base/units.h"

namespace atl::cli {
namespace {

constexpr char kExamples[] =
    "  # every sandbox; only ids, for scripts\n"
    "  atoll ps\n"
    "  atoll ps -q | xargs -r atoll kill\n"
    "  # those with a label\n"
    "  atoll ps -m task=42\n"
    "  # what runs in one (processes started through Atoll)\n"
    "  atoll ps iabcdefghij0123456789";

struct Options {
  std::string sandbox;
  std::vector<std::string> metadata;
  bool quiet = false;
};

std::string left_until(const std::string& end) {
  auto time = parse_rfc3339(end);
  if (!time) return "-";
  return format_duration(std::chrono::duration_cast<std::chrono::seconds>(*time - system_clock().now()));
}

std::string age_of(const std::string& start) {
  auto time = parse_rfc3339(start);
  if (!time) return "-";
  return format_duration(std::chrono::duration_cast<std::chrono::seconds>(system_clock().now() - *time));
}

// Its limit, and what its tier takes beside that.
std::string memory_of(const json::value& sandbox) {
  auto mib = [&](const char* key) { return static_cast<std::uint64_t>(number_at(sandbox, key)) * kMiB; };
  std::uint64_t overhead = mib("overheadMB");
  std::string limit = format_bytes(mib("memoryMB"));
  return overhead == 0 ? limit : fmt::format("{} + {}", limit, format_bytes(overhead));
}

std::string labels(const json::value& sandbox) {
  const json::value* metadata = find_at(sandbox, "metadata");
  std::string out;
  if (metadata == nullptr || !metadata->is_object()) return out;
  for (const auto& item : metadata->as_object()) {
    if (!item.value().is_string()) continue;
    out += fmt::format("{}{}={}", out.empty() ? "" : ",", std::string_view(item.key()),
                       std::string_view(item.value().as_string()));
  }
  return printable(out);
}

// The filter in the encoding of the E2B clients: pairs encoded one by one, joined, then encoded as one query
// value.
Result<std::string> list_path(const Options& options) {
  TRY(auto wanted, parse_metadata(options.metadata));
  std::string pairs;
  for (const auto& [key, value] : wanted) {
    pairs += fmt::format("{}{}={}", pairs.empty() ? "" : "&", http::percent_encode(key),
                         http::percent_encode(value));
  }
  if (pairs.empty()) return std::string("/v2/sandboxes?limit=100");
  return "/v2/sandboxes?limit=100&metadata=" + http::percent_encode(http::percent_encode(pairs));
}

Task<Result<int>> list_sandboxes(std::shared_ptr<ApiClient> api, const Options& options, bool as_json) {
  CO_TRY(std::string path, list_path(options));
  CO_TRY(json::array sandboxes, co_await api->list(path));
  if (as_json) {
    print_json(sandboxes);
    co_return kExitOk;
  }
  Table table({"ID", "TEMPLATE", "ISOLATION", "MEMORY", "STATE", "AGE", "LEFT", "WHY", "LABELS"});
  for (const json::value& sandbox : sandboxes) {
    std::string id = printable(text_at(sandbox, "sandboxID"));
    if (options.quiet) {
      write_out(id + "\n");
      continue;
    }
    std::string name = text_at(sandbox, "alias", text_at(sandbox, "templateID"));
    table.add({id, printable(name), printable(text_at(sandbox, "isolation")), memory_of(sandbox),
               printable(text_at(sandbox, "state")), age_of(text_at(sandbox, "startedAt")),
               left_until(text_at(sandbox, "endAt")),
               printable(describe_activity(sandbox, system_clock().now())), labels(sandbox)});
  }
  if (!options.quiet) print_table(table);
  co_return kExitOk;
}

Task<Result<int>> list_processes(std::shared_ptr<ApiClient> api, const Options& options, bool as_json) {
  CO_TRY(auto guest, co_await GuestClient::open(api, options.sandbox, std::string()));
  json::value body = json::object();
  CO_TRY(json::value answer, co_await guest->unary("process.Process/List", std::move(body)));
  const json::value* processes = find_at(answer, "processes");
  json::array list;
  if (processes != nullptr && processes->is_array()) list = processes->as_array();
  if (as_json) {
    print_json(list);
    co_return kExitOk;
  }
  Table table({"PID", "TAG", "COMMAND"});
  for (const json::value& process : list) {
    const json::value* config = find_at(process, "config");
    if (config == nullptr) continue;
    std::vector<std::string> words{text_at(*config, "cmd")};
    const json::value* args = find_at(*config, "args");
    if (args != nullptr && args->is_array()) {
      for (const json::value& word : args->as_array()) {
        if (word.is_string()) words.emplace_back(std::string_view(word.as_string()));
      }
    }
    std::string pid = fmt::format("{}", number_at(process, "pid"));
    if (options.quiet) write_out(pid + "\n");
    table.add({pid, printable(text_at(process, "tag", "-")), printable(shell_join(words))});
  }
  if (!options.quiet) print_table(table);
  co_return kExitOk;
}

Task<Result<int>> ps(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  if (options.sandbox.empty()) co_return co_await list_sandboxes(api, options, globals.json);
  co_return co_await list_processes(api, options, globals.json);
}

}  // namespace

void register_ps(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app = commands.add(nullptr, "ps", "list sandboxes, or the processes of one", kExamples,
                               [options](const Globals& globals) -> Result<int> {
                                 return Session().run([&](Session& s) { return ps(s, *options, globals); });
                               });
  app.add_flag("-q,--quiet", options->quiet, "only ids");
  commands.add_list(app, "-m,--metadata", "KEY=VALUE", &options->metadata, "only sandboxes with this label");
  app.add_option("ID", options->sandbox, "show the processes of this sandbox");
}

}  // namespace atl::cli
