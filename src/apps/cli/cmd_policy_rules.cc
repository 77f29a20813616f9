// SPDX-License-Identifier: Apache-2.0
//
// atoll policy set, list, get, rm, explain: the rules of tenants and templates, and what is in force for a
// sandbox.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/api_client.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "apps/cli/policy_rules.h"
#include "base/text.h"
#include "gateway/policy/rule.h"
#include "http/json.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

struct Options {
  std::string author, name, file, sandbox;
  std::string method = "GET", url, label, address;
  bool trial = false;
};

std::string path_of(const Options& options) {
  return fmt::format("/v1/policies/{}/{}{}", options.author, http::percent_encode(options.name),
                     options.trial ? "?trial=true" : "");
}

// Read here too, so that a mistake is told with its place before anything is asked.
Result<json::value> read_rules(const Options& options) {
  std::string file = options.file == "-" ? "/dev/stdin" : options.file;
  TRY(std::string text, sys::read_file(file, gateway::policy::kMaxRuleSetBytes + 1));
  using gateway::policy::Source;
  auto author = options.author == "tenant" ? Source::kTenant : Source::kTemplate;
  auto set = gateway::policy::parse_rule_set(text, author);
  if (!set.ok()) return std::move(set).error().context(options.file);
  return http::parse_json(text);
}

Task<Result<int>> set(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(json::value rules, read_rules(options));
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  std::string path = path_of(options);
  CO_TRY(ApiReply reply, co_await api->call("PUT", path, std::move(rules)));
  const json::value* notes = find_at(reply.body, "notes");
  for (const json::value& note : notes && notes->is_array() ? notes->get_array() : json::array()) {
    if (note.is_string()) print_note(printable(std::string_view(note.get_string())));
  }
  if (globals.json)
    print_json(reply.body);
  else
    write_out(fmt::format("in force for sandboxes of {} {}\n", options.author, printable(options.name)));
  co_return kExitOk;
}

Task<Result<int>> list(Session& session, const Options&, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  CO_TRY(ApiReply reply, co_await api->call("GET", "/v1/policies"));
  const json::value* all = find_at(reply.body, "policies");
  if (all == nullptr || !all->is_array())
    co_return make_error(Code::kCorrupt, "GET /v1/policies: no policies in the answer");
  if (globals.json) {
    print_json(*all);
    co_return kExitOk;
  }
  Table table({"OF", "NAME", "RULES", "DEFAULT", "TRIAL", "UPDATED"});
  for (const json::value& one : all->get_array()) {
    bool file = text_at(one, "author") == "operator";
    const json::value* trial = find_at(one, "trial");
    table.add({printable(text_at(one, "author")), printable(text_at(one, file ? "file" : "name")),
               fmt::format("{}", number_at(one, "rules")), printable(text_at(one, "default")),
               trial && trial->is_bool() && trial->get_bool() ? "yes" : "no",
               printable(text_at(one, "updatedAt"))});
    if (find_at(one, "problem"))
      print_note("the file is not in force, the last good rules are: " + printable(text_at(one, "problem")));
  }
  print_table(table);
  co_return kExitOk;
}

Task<Result<int>> get(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  std::string path = path_of(options);
  CO_TRY(ApiReply reply, co_await api->call("GET", path));
  print_json(reply.body);
  co_return kExitOk;
}

Task<Result<int>> remove(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  std::string path = path_of(options);
  CO_TRY_VOID(co_await api->call("DELETE", path));
  if (globals.json)
    print_json(json::object({{"removed", options.name}}));
  else
    write_out(fmt::format("removed the rules of {} {}\n", options.author, printable(options.name)));
  co_return kExitOk;
}

std::string joined(const json::value* list) {
  std::string out;
  for (const auto& one : list && list->is_array() ? list->get_array() : json::array()) {
    if (one.is_string()) out += (out.empty() ? "" : ",") + printable(std::string_view(one.get_string()));
  }
  return out;
}

void show_sets(const json::value& told) {
  const json::value* sets = find_at(told, "sets");
  Table table({"RULE", "ACTION", "HOSTS", "METHODS"});
  for (const auto& set : sets && sets->is_array() ? sets->get_array() : json::array()) {
    const json::value* rules = find_at(set, "rules");
    for (const auto& rule : rules && rules->is_array() ? rules->get_array() : json::array()) {
      table.add({printable(text_at(rule, "rule")), printable(text_at(rule, "action")),
                 joined(find_at(rule, "hosts")), joined(find_at(rule, "methods"))});
    }
    if (find_at(set, "default"))
      table.add(
          {printable(text_at(set, "author")), printable(text_at(set, "default")), "everything else", ""});
  }
  print_table(table);
}

Task<Result<int>> explain(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  std::string path = "/v1/sandboxes/" + http::percent_encode(options.sandbox) + "/policy";
  if (options.url.empty()) {
    CO_TRY(ApiReply reply, co_await api->call("GET", path));
    if (globals.json)
      print_json(reply.body);
    else
      show_sets(reply.body);
    co_return kExitOk;
  }
  json::object request{{"method", options.method}, {"url", options.url}};
  if (!options.label.empty()) request["label"] = options.label;
  if (!options.address.empty()) request["address"] = options.address;
  json::value body = std::move(request);
  CO_TRY(ApiReply reply, co_await api->call("POST", path, std::move(body)));
  if (!reply.body.is_object()) co_return make_error(Code::kCorrupt, "POST {}: no object in the answer", path);
  if (globals.json)
    print_json(reply.body);
  else
    show_verdict(reply.body.get_object());
  co_return text_at(reply.body, "verdict") == "allow" ? kExitOk : kExitUnhealthy;
}

using Run = Task<Result<int>> (*)(Session&, const Options&, const Globals&);

std::function<Result<int>(const Globals&)> action(const std::shared_ptr<Options>& options, Run run) {
  return [options, run](const Globals& globals) -> Result<int> {
    return Session().run([&](Session& session) { return run(session, *options, globals); });
  };
}

void add_whose(CLI::App& app, Options& options) {
  app.add_option("OF", options.author, "tenant or template")
      ->required()
      ->check(CLI::IsMember({"tenant", "template"}));
  app.add_option("NAME", options.name, "its name or id")->required();
}

}  // namespace

void register_policy_rules(Commands& commands, CLI::App& policy) {
  auto options = std::make_shared<Options>();
  CLI::App& set_app = commands.add(&policy, "set", "give a tenant or a template its rules, at once",
                                   "  atoll policy set tenant acme rules.json\n"
                                   "  # on trial: told in the events, not enforced\n"
                                   "  jq '.shadow = true' rules.json | atoll policy set template base -",
                                   action(options, set));
  add_whose(set_app, *options);
  set_app.add_option("FILE", options->file, "the rules; - is standard input")->required();
  commands.add(&policy, "list", "show whose rules there are", "  atoll policy list", action(options, list));
  CLI::App& get_app = commands.add(&policy, "get", "print the rules of a tenant or a template",
                                   "  atoll policy get tenant acme", action(options, get));
  CLI::App& rm_app = commands.add(&policy, "rm", "take the rules of a tenant or a template back",
                                  "  atoll policy rm tenant acme", action(options, remove));
  for (CLI::App* app : {&get_app, &rm_app}) {
    add_whose(*app, *options);
    app->add_flag("--trial", options->trial, "those on trial");
  }
  CLI::App& explain_app = commands.add(
      &policy, "explain", "show which rules are in force for a sandbox, or what they do with a request",
      "  atoll policy explain i4k2...\n"
      "  atoll policy explain i4k2... https://api.example/v1/models --method POST",
      action(options, explain));
  explain_app.add_option("SANDBOX", options->sandbox, "its id")->required();
  explain_app.add_option("URL", options->url, "of a request; nothing is sent");
  explain_app.add_option("--method", options->method, "of the request (default: GET)");
  explain_app.add_option("--label", options->label, "of the process that asks");
  explain_app.add_option("--address", options->address, "the address that the name resolves to");
}

}  // namespace atl::cli
