// SPDX-License-Identifier: Apache-2.0
//
// atoll approvals: requests of sandboxes that wait for a person.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/api_client.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "apps/cli/registry.h"
#include "base/text.h"

namespace atl::cli {
namespace {

struct Options {
  std::string id, sandbox, state, reason;
  bool all = false;
  bool quiet = false;
};

std::string path_of(const Options& options) { return "/v1/approvals/" + http::percent_encode(options.id); }

std::string list_path(const Options& options) {
  std::string state = options.state.empty() && !options.all ? "pending" : options.state;
  std::string path = "/v1/approvals?limit=1000";
  if (!state.empty()) path += "&state=" + http::percent_encode(state);
  if (!options.sandbox.empty()) path += "&sandbox=" + http::percent_encode(options.sandbox);
  return path;
}

Task<Result<int>> list(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  std::string path = list_path(options);
  CO_TRY(ApiReply reply, co_await api->call("GET", path));
  const json::value* all = find_at(reply.body, "approvals");
  if (all == nullptr || !all->is_array())
    co_return make_error(Code::kCorrupt, "GET /v1/approvals: no approvals in the answer");
  if (globals.json) {
    print_json(*all);
    co_return kExitOk;
  }
  Table table({"ID", "STATE", "SANDBOX", "RULE", "EXPIRES", "REQUEST"});
  for (const json::value& one : all->get_array()) {
    std::string id = printable(text_at(one, "approvalID"));
    if (options.quiet) write_out(id + "\n");
    table.add({std::move(id), printable(text_at(one, "state")), printable(text_at(one, "sandboxID")),
               printable(text_at(one, "rule")), printable(text_at(one, "expiresAt")),
               printable(text_at(one, "method") + " " + text_at(one, "url"))});
  }
  if (!options.quiet) print_table(table);
  co_return kExitOk;
}

// The lines of the summary, which begin with the request itself.
std::string shown(const json::value& approval) {
  constexpr std::pair<const char*, const char*> kLines[] = {
      {"state", "state"},     {"sandbox", "sandboxID"}, {"label", "label"},         {"rule", "rule"},
      {"asked", "createdAt"}, {"expires", "expiresAt"}, {"decided", "decidedAt"},   {"by", "decidedBy"},
      {"reason", "reason"},   {"ended", "endedAt"},     {"because", "endedBecause"}};
  std::string out;
  for (const auto& [name, key] : kLines) {
    std::string text = printable(text_at(approval, key));
    if (!text.empty()) out += fmt::format("{:<8} {}\n", name, text);
  }
  out += "\n";
  std::string summary = text_at(approval, "summary");
  for (std::string_view line : split(summary, '\n')) out += printable(line) + "\n";
  return out;
}

Task<Result<int>> show(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  std::string path = path_of(options);
  CO_TRY(ApiReply reply, co_await api->call("GET", path));
  if (globals.json)
    print_json(reply.body);
  else
    write_out(shown(reply.body));
  co_return kExitOk;
}

Task<Result<int>> decide(Session& session, const Options& options, const Globals& globals,
                         std::string decision) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  json::object word{{"decision", decision}};
  if (!options.reason.empty()) word["reason"] = options.reason;
  std::string path = path_of(options);
  json::value body = std::move(word);
  CO_TRY(ApiReply reply, co_await api->call("POST", path, std::move(body)));
  if (globals.json)
    print_json(reply.body);
  else
    write_out(fmt::format("{}: {} {}\n", printable(text_at(reply.body, "state")),
                          printable(text_at(reply.body, "method")), printable(text_at(reply.body, "url"))));
  co_return kExitOk;
}

using Run = Task<Result<int>> (*)(Session&, const Options&, const Globals&);

std::function<Result<int>(const Globals&)> action(const std::shared_ptr<Options>& options, Run run) {
  return [options, run](const Globals& globals) -> Result<int> {
    return Session().run([&](Session& session) { return run(session, *options, globals); });
  };
}

std::function<Result<int>(const Globals&)> word(const std::shared_ptr<Options>& options,
                                                std::string decision) {
  return [options, decision](const Globals& globals) -> Result<int> {
    return Session().run([&](Session& session) { return decide(session, *options, globals, decision); });
  };
}

}  // namespace

void register_approvals(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app =
      commands.add(nullptr, "approvals", "requests of sandboxes that wait for a person: see and decide them",
                   "  atoll approvals list\n"
                   "  atoll approvals approve apr_k3... --reason 'invoice 17'",
                   nullptr);
  CLI::App& list_app = commands.add(&app, "list", "show those that wait, or others, the newest first",
                                    "  atoll approvals list\n"
                                    "  # also what became of older ones\n"
                                    "  atoll approvals list --all --sandbox i4k2...",
                                    action(options, list));
  list_app.add_option("--state", options->state, "only those in this state")
      ->check(CLI::IsMember({"pending", "approved", "denied", "expired", "cancelled", "used"}));
  list_app.add_option("--sandbox", options->sandbox, "only those of this sandbox");
  list_app.add_flag("-a,--all", options->all, "in every state");
  list_app.add_flag("-q,--quiet", options->quiet, "ids only");
  CLI::App& show_app =
      commands.add(&app, "show", "show one, with what the request says; secrets are left out",
                   "  atoll approvals show apr_k3...", action(options, show));
  CLI::App& approve_app = commands.add(&app, "approve", "let the request go out, once",
                                       "  atoll approvals approve apr_k3...", word(options, "approve"));
  CLI::App& deny_app =
      commands.add(&app, "deny", "refuse the request; the program inside is told why",
                   "  atoll approvals deny apr_k3... --reason 'not this customer'", word(options, "deny"));
  for (CLI::App* one : {&show_app, &approve_app, &deny_app})
    one->add_option("APPROVAL", options->id, "its id")->required();
  for (CLI::App* one : {&approve_app, &deny_app})
    one->add_option("--reason", options->reason, "kept with the decision, and told to the program inside");
}

}  // namespace atl::cli
