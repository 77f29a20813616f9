// SPDX-License-Identifier: Apache-2.0
//
// atoll policy check and test: rules of what may leave a sandbox, checked and tried out without a sandbox.
// Nothing is sent anywhere.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "apps/cli/policy_rules.h"
#include "apps/cli/registry.h"
#include "base/text.h"
#include "gateway/policy/dry_run.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

namespace policy = gateway::policy;

constexpr std::size_t kMaxBodyFile = 1024 * 1024;

struct Options {
  std::string operator_, tenant, template_, sandbox;  // files
  std::string method, url, label, address, body, time;
  std::vector<std::string> headers;
};

Result<void> read_set(const std::string& file, policy::Source source, std::vector<policy::RuleSet>& out) {
  if (file.empty()) return success();
  TRY(std::string text, sys::read_file(file, policy::kMaxRuleSetBytes + 1));
  auto set = policy::parse_rule_set(text, source);
  if (!set.ok()) return std::move(set).error().context(file);
  out.push_back(*std::move(set));
  return success();
}

Result<std::shared_ptr<const policy::Policy>> read_policy(const Options& options) {
  std::vector<policy::RuleSet> sets;
  TRY_VOID(read_set(options.operator_, policy::Source::kOperator, sets));
  TRY_VOID(read_set(options.tenant, policy::Source::kTenant, sets));
  TRY_VOID(read_set(options.template_, policy::Source::kTemplate, sets));
  TRY_VOID(read_set(options.sandbox, policy::Source::kSandbox, sets));
  if (sets.empty())
    return make_error(Code::kInvalid, "no rules are given")
        .with_hint("give --sandbox FILE, --template FILE, --tenant FILE or --operator FILE");
  TRY(auto compiled, policy::Policy::compile(std::move(sets)));
  for (const std::string& note : compiled->notes()) print_note(note);
  return compiled;
}

Result<std::int64_t> read_time(const std::string& text) {
  if (text.empty()) return system_clock().now().ms / 1000;
  auto hour = text.size() == 5 && text[2] == ':' ? parse_number<unsigned>(text.substr(0, 2)) : std::nullopt;
  auto minute = hour ? parse_number<unsigned>(text.substr(3)) : std::nullopt;
  if (!minute || *hour > 23 || *minute > 59)
    return make_error(Code::kInvalid, "--time {}: must be like 09:30, UTC", printable(text));
  return std::int64_t{*hour} * 3600 + std::int64_t{*minute} * 60;
}

Result<policy::WrittenRequest> read_request(const Options& options) {
  TRY(policy::WrittenRequest request, policy::read_written_request(options.method, options.url));
  request.label = options.label;
  TRY(request.unix_seconds, read_time(options.time));
  if (!options.address.empty()) {
    TRY(request.address, gateway::parse_ip(options.address));
  }
  for (const std::string& header : options.headers) {
    auto colon = header.find(':');
    if (colon == std::string::npos || colon == 0)
      return make_error(Code::kInvalid, "--header {}: must be NAME: VALUE", printable(header));
    request.headers.add(to_lower(header.substr(0, colon)),
                        std::string(trim(std::string_view(header).substr(colon + 1))));
  }
  if (!options.body.empty()) {
    TRY(request.body, sys::read_file(options.body, kMaxBodyFile));
  }
  return request;
}

std::string text_of(const json::object& row, std::string_view key) {
  const json::value* value = row.if_contains(key);
  return value && value->is_string() ? printable(std::string_view(value->get_string())) : std::string();
}

Result<int> test(const Options& options, const Globals& globals) {
  TRY(auto compiled, read_policy(options));
  TRY(policy::WrittenRequest request, read_request(options));
  auto facts = policy::facts_of(request);
  json::object told = policy::to_json(compiled->connection(facts.at), compiled->explain(facts));
  if (globals.json)
    print_json(told);
  else
    show_verdict(told);
  return text_of(told, "verdict") == "allow" ? kExitOk : kExitUnhealthy;
}

Result<int> check(const Options& options, const Globals& globals) {
  TRY(auto compiled, read_policy(options));
  if (globals.json) {
    json::array notes(compiled->notes().begin(), compiled->notes().end());
    print_json(json::object({{"notes", std::move(notes)}}));
  } else {
    write_out("the rules are good\n");
  }
  return kExitOk;
}

void add_files(CLI::App& app, Options& options) {
  app.add_option("--sandbox", options.sandbox, "a file with the sandbox's rules");
  app.add_option("--template", options.template_, "the template's");
  app.add_option("--tenant", options.tenant, "the tenant's");
  app.add_option("--operator", options.operator_, "the operator's");
}

}  // namespace

void show_verdict(const json::object& told) {
  std::string line = fmt::format("{}: {}", text_of(told, "verdict"), text_of(told, "rule"));
  if (told.contains("reason"))
    line += fmt::format("\n{}\n{}", text_of(told, "reason"), text_of(told, "hint"));
  if (told.contains("addressDecides"))
    line += "\nthe address that the name resolves to decides; give it with --address";
  write_out(line + "\n\n");
  Table table({"RULE", "ACTION", "MATCHES", "WHY"});
  for (const json::value& entry : told.at("rules").as_array()) {
    const json::object& row = entry.as_object();
    table.add({text_of(row, "rule"), text_of(row, "action"), row.at("matched").as_bool() ? "yes" : "no",
               text_of(row, "why")});
  }
  print_table(table);
}

void register_policy(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app = commands.add(
      nullptr, "policy", "rules of what may leave sandboxes: set them, try them out, see what is in force",
      "  atoll policy set tenant acme rules.json\n"
      "  atoll policy test --sandbox rules.json POST https://api.example/v1/messages",
      nullptr);
  CLI::App& check_app = commands.add(&app, "check", "read rules, and say what is wrong with them",
                                     "  atoll policy check --tenant tenant.json --sandbox rules.json",
                                     [options](const Globals& globals) { return check(*options, globals); });
  add_files(check_app, *options);
  CLI::App& test_app =
      commands.add(&app, "test", "say what rules do with a request; status 0: it is allowed, 1: it is not",
                   "  atoll policy test --sandbox rules.json GET https://api.example/v1/models\n"
                   "  # of a labelled process, at a time of day, to an address\n"
                   "  atoll policy test --sandbox rules.json --label git --time 19:30 --address 10.0.0.7 GET "
                   "https://git.example/",
                   [options](const Globals& globals) { return test(*options, globals); });
  add_files(test_app, *options);
  test_app.add_option("METHOD", options->method, "GET, POST, ...")->required();
  test_app.add_option("URL", options->url, "http://... or https://...")->required();
  test_app.add_option("--label", options->label, "of the process that asks");
  test_app.add_option("--address", options->address, "the address that the name resolves to");
  commands.add_list(test_app, "--header", "NAME: VALUE", &options->headers, "a header field");
  test_app.add_option("--body", options->body, "a file with the body");
  test_app.add_option("--time", options->time, "HH:MM in UTC; now when left out");
  register_policy_rules(commands, app);
}

}  // namespace atl::cli
