// SPDX-License-Identifier: Apache-2.0
//
// atoll top: live use of CPU, memory and disk of all sandboxes.
#include <unistd.h>

#include <algorithm>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/guest_client.h"
#include "apps/cli/output.h"
#include "apps/cli/parse.h"
#include "apps/cli/registry.h"
#include "base/text.h"

namespace atl::cli {
namespace {

constexpr char kExamples[] =
    "  # redrawn every two seconds; ^C ends it\n"
    "  atoll top\n"
    "  # once, for a script\n"
    "  atoll top --once --json";

constexpr Steady::duration kEvery = std::chrono::seconds(2);
constexpr std::size_t kBatch = 100;  // ids in one question

struct Options {
  bool once = false;
};

struct Row {
  std::string id, name;
  json::value metric;
};

std::string use_of(const json::value& metric, std::string_view used, std::string_view total) {
  if (find_at(metric, used) == nullptr) return "-";
  return fmt::format("{} / {}", format_bytes(static_cast<std::uint64_t>(number_at(metric, used))),
                     format_bytes(static_cast<std::uint64_t>(number_at(metric, total))));
}

Task<Result<std::vector<Row>>> measure(std::shared_ptr<ApiClient> api) {
  CO_TRY(json::array list, co_await api->list("/v2/sandboxes?limit=100&state=running"));
  std::vector<Row> rows;
  for (const json::value& sandbox : list) {
    Row row;
    row.id = text_at(sandbox, "sandboxID");
    row.name = text_at(sandbox, "alias", text_at(sandbox, "templateID"));
    rows.push_back(std::move(row));
  }
  for (std::size_t start = 0; start < rows.size(); start += kBatch) {
    std::size_t end = std::min(rows.size(), start + kBatch);
    std::string path = "/sandboxes/metrics?sandbox_ids=";
    for (std::size_t i = start; i < end; ++i)
      path += (i > start ? "," : "") + http::percent_encode(rows[i].id);
    CO_TRY(ApiReply reply, co_await api->call("GET", path));
    const json::value* metrics = find_at(reply.body, "sandboxes");
    for (std::size_t i = start; metrics != nullptr && i < end; ++i) {
      const json::value* metric = find_at(*metrics, rows[i].id);
      if (metric != nullptr) rows[i].metric = *metric;
    }
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return real_at(a.metric, "cpuUsedPct") > real_at(b.metric, "cpuUsedPct");
  });
  co_return rows;
}

std::string screen(const std::vector<Row>& rows) {
  Table table({"ID", "TEMPLATE", "CPU %", "MEMORY", "DISK"});
  for (const Row& row : rows) {
    std::string cpu = find_at(row.metric, "cpuUsedPct") != nullptr
                          ? fmt::format("{:.1f}", real_at(row.metric, "cpuUsedPct"))
                          : "-";
    table.add({printable(row.id), printable(row.name), cpu, use_of(row.metric, "memUsed", "memTotal"),
               use_of(row.metric, "diskUsed", "diskTotal")});
  }
  return format_count(rows.size(), "sandbox") + "\n" + table.text(true);
}

json::value rows_json(const std::vector<Row>& rows) {
  json::array out;
  for (const Row& row : rows)
    out.push_back(json::object({{"sandboxID", row.id}, {"template", row.name}, {"metric", row.metric}}));
  return out;
}

Task<Result<int>> top(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  bool live = !options.once && is_terminal(STDOUT_FILENO) && !globals.json;
  for (;;) {
    CO_TRY(std::vector<Row> rows, co_await measure(api));
    if (globals.json)
      print_json(rows_json(rows));
    else
      write_out((live ? "\x1b[H\x1b[2J" : "") + screen(rows));
    if (options.once || (!live && !globals.json)) co_return kExitOk;
    co_await async::sleep_for(kEvery);
  }
}

}  // namespace

void register_top(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app = commands.add(nullptr, "top", "watch what sandboxes use", kExamples,
                               [options](const Globals& globals) -> Result<int> {
                                 return Session().run([&](Session& s) { return top(s, *options, globals); });
                               });
  app.add_flag("--once", options->once, "show one measurement and end");
}

}  // namespace atl::cli
