// SPDX-License-Identifier: Apache-2.0
//
// atoll logs: what Atoll and the guest daemon have recorded about one sandbox.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/guest_client.h"
#include "apps/cli/output.h"
#include "apps/cli/parse.h"
#include "apps/cli/registry.h"
#include "base/text.h"
#include "model/sandbox.h"

namespace atl::cli {
namespace {

constexpr char kExamples[] =
    "  atoll logs iabcdefghij0123456789\n"
    "  # go on until the sandbox ends\n"
    "  atoll logs -f iabcdefghij0123456789\n"
    "  # warnings and errors only, as JSON\n"
    "  atoll logs --level warn --json iabcdefghij0123456789";

constexpr Steady::duration kPoll = std::chrono::seconds(1);
// A sandbox is out of the list of living ones before the kernel has let go of it and its end is written down.
constexpr Steady::duration kEndLimit = std::chrono::seconds(20);
constexpr Steady::duration kEndPoll = std::chrono::milliseconds(100);
constexpr int kPage = 1000;

struct Options {
  std::string sandbox, level, search;
  bool follow = false;
};

Colour colour_of(std::string_view level) {
  if (level == "error") return Colour::kRed;
  if (level == "warn") return Colour::kYellow;
  return Colour::kDim;
}

void show(const json::value& entry, bool as_json) {
  if (as_json) return print_json(entry);
  std::string fields;
  const json::value* list = find_at(entry, "fields");
  if (list != nullptr && list->is_object()) {
    for (const auto& item : list->as_object()) {
      std::string value =
          item.value().is_string() ? std::string(item.value().as_string()) : json::serialize(item.value());
      fields += fmt::format(" {}={}", std::string_view(item.key()), value);
    }
  }
  std::string level = printable(text_at(entry, "level", "info"));
  write_out(fmt::format("{} {} {}{}\n", printable(text_at(entry, "timestamp")),
                        paint(STDOUT_FILENO, colour_of(level), fmt::format("{:5}", level)),
                        printable(text_at(entry, "message")), printable(fields)));
}

// Entries at or after `cursor` (milliseconds); moves the cursor on and drops what was shown already. Entries
// of one millisecond are told apart by their text.
struct Position {
  std::int64_t cursor = 0;
  std::vector<std::string> shown;  // serialised entries of the cursor's millisecond
  bool ended = false;              // the entry that tells of the sandbox's end was shown
};

Task<Result<std::size_t>> show_page(std::shared_ptr<ApiClient> api, const Options& options, bool as_json,
                                    Position& at) {
  std::string path = fmt::format("/v2/sandboxes/{}/logs?direction=forward&limit={}&cursor={}",
                                 options.sandbox, kPage, at.cursor);
  if (!options.level.empty()) path += "&level=" + http::percent_encode(options.level);
  if (!options.search.empty()) path += "&search=" + http::percent_encode(options.search);
  auto answer = co_await api->call("GET", path);
  if (!answer.ok() && answer.error().code() == Code::kNotFound) {
    co_return make_error(Code::kNotFound, "there is no sandbox {}, and none has ended lately",
                         options.sandbox)
        .with_hint("list those that run with 'atoll ps'");
  }
  if (!answer.ok()) co_return std::move(answer).error();
  const ApiReply& reply = *answer;
  const json::value* logs = find_at(reply.body, "logs");
  std::size_t count = 0;
  if (logs == nullptr || !logs->is_array()) co_return count;
  for (const json::value& entry : logs->as_array()) {
    auto time = parse_rfc3339(text_at(entry, "timestamp"));
    std::int64_t ms = time ? time->ms : at.cursor;
    std::string text = json::serialize(entry);
    if (ms == at.cursor && std::find(at.shown.begin(), at.shown.end(), text) != at.shown.end()) continue;
    if (ms > at.cursor) {
      at.cursor = ms;
      at.shown.clear();
    }
    at.shown.push_back(std::move(text));
    const json::value* fields = find_at(entry, "fields");
    if (fields != nullptr && text_at(*fields, "event") == "sandbox.ended") at.ended = true;
    show(entry, as_json);
    ++count;
  }
  co_return count;
}

// Goes on until the end is shown, or is not told in time.
Task<Result<void>> show_end(std::shared_ptr<ApiClient> api, const Options& options, bool as_json,
                            Position& at) {
  auto deadline = Steady::now() + kEndLimit;
  for (;;) {
    auto count = co_await show_page(api, options, as_json, at);
    if (!count.ok()) co_return std::move(count).error();
    bool filtered = !options.level.empty() || !options.search.empty();
    if (at.ended || filtered || Steady::now() > deadline) co_return success();
    co_await async::sleep_for(kEndPoll);
  }
}

Task<Result<int>> logs(Session& session, const Options& options, const Globals& globals) {
  if (!model::valid_sandbox_id(options.sandbox)) {
    co_return make_error(Code::kInvalid, "'{}' is not a sandbox id", printable(options.sandbox))
        .with_hint("list ids with 'atoll ps'");
  }
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  Position at;
  for (;;) {
    auto count = co_await show_page(api, options, globals.json, at);
    if (!count.ok()) co_return std::move(count).error();
    if (*count >= kPage / 2) continue;
    if (!options.follow || at.ended) co_return kExitOk;
    std::string path = "/sandboxes/" + options.sandbox;
    auto alive = co_await api->call("GET", path);
    if (!alive.ok() && alive.error().code() == Code::kNotFound) {
      CO_TRY_VOID(co_await show_end(api, options, globals.json, at));
      co_return kExitOk;
    }
    co_await async::sleep_for(kPoll);
  }
}

}  // namespace

void register_logs(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app = commands.add(nullptr, "logs", "show what happened in and to a sandbox", kExamples,
                               [options](const Globals& globals) -> Result<int> {
                                 return Session().run([&](Session& s) { return logs(s, *options, globals); });
                               });
  app.add_flag("-f,--follow", options->follow, "go on until the sandbox ends");
  app.add_option("--level", options->level, "at least this level")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
  app.add_option("--search", options->search, "only entries that hold this text")->type_name("TEXT");
  app.add_option("ID", options->sandbox, "the sandbox")->required();
}

}  // namespace atl::cli
