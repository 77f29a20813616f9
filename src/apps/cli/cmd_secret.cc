// SPDX-License-Identifier: Apache-2.0
//
// atoll secret: secrets of the tenant, and which requests they go into.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/api_client.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "apps/cli/registry.h"
#include "apps/cli/secret_input.h"
#include "base/text.h"

namespace atl::cli {
namespace {

struct Options {
  std::string name, kind, binding, state, code;
  std::vector<std::string> fields, metadata, hosts;
  std::string path;
  int port = 0;
  std::vector<std::string> methods, sandboxes, templates;
  std::string variable;
  std::vector<std::string> places;
};

std::string secret_path(const Options& options) { return "/secrets/" + http::percent_encode(options.name); }

Error no_such_secret(const std::string& name) {
  return make_error(Code::kNotFound, "there is no secret {}", printable(name))
      .with_hint("list them with 'atoll secret list'");
}

// "a=b" of --field and --metadata. Numbers and JSON objects stay what they are.
Result<json::object> read_pairs(const std::vector<std::string>& pairs, std::string_view option) {
  json::object out;
  for (const auto& pair : pairs) {
    auto equals = pair.find('=');
    if (equals == pair.npos || equals == 0) {
      return make_error(Code::kInvalid, "{} wants NAME=VALUE, not '{}'", option, printable(pair));
    }
    out[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return out;
}

// Fields of a kind are texts, but for these.
void type_fields(json::object& config) {
  for (auto& [key, value] : config) {
    boost::system::error_code bad;
    bool structured = key == "claims" || key == "also_remove" || key == "lifetime_s";
    auto parsed = structured ? json::parse(value.as_string(), bad) : json::value();
    if (structured && !bad) value = std::move(parsed);
  }
}

Result<json::object> new_secret_body(const Options& options) {
  TRY(json::object config, read_pairs(options.fields, "--field"));
  type_fields(config);
  json::object body{{"name", options.name}};
  if (!options.kind.empty()) {
    config["type"] = options.kind;
    body["credential"] = std::move(config);
  } else if (!config.empty()) {
    return make_error(Code::kInvalid, "--field needs --kind");
  }
  TRY(json::object metadata, read_pairs(options.metadata, "--metadata"));
  if (!metadata.empty()) body["metadata"] = std::move(metadata);
  return body;
}

// "header:x-api-key", "query:key", "body:/auth/token", "path"; the headers that hold keys when none is given.
Result<json::object> placeholder_places(const Options& options) {
  json::array headers, query, body;
  json::object out{{"variable", options.variable}};
  for (const auto& place : options.places) {
    auto colon = std::min(place.find(':'), place.size());
    std::string kind = place.substr(0, colon), name = place.substr(std::min(colon + 1, place.size()));
    if (kind == "header" && !name.empty()) {
      headers.emplace_back(name);
    } else if (kind == "query" && !name.empty()) {
      query.emplace_back(name);
    } else if (kind == "body") {
      body.emplace_back(name);
    } else if (place == "path") {
      out["path"] = true;
    } else {
      return make_error(Code::kInvalid,
                        "--in wants header:NAME, query:KEY, body:/JSON/POINTER or path, not '{}'",
                        printable(place));
    }
  }
  if (options.places.empty()) headers = {"authorization", "x-api-key"};
  if (!headers.empty()) out["headers"] = std::move(headers);
  if (!query.empty()) out["query"] = std::move(query);
  if (!body.empty()) out["body"] = std::move(body);
  return out;
}

Result<json::object> binding_body(const Options& options, const std::string& host) {
  json::object out{{"secret", options.name}, {"host", host}};
  if (options.port != 0) out["port"] = options.port;
  if (!options.path.empty()) out["path"] = options.path;
  if (!options.methods.empty()) out["methods"] = json::value_from(options.methods);
  if (!options.sandboxes.empty()) out["sandboxes"] = json::value_from(options.sandboxes);
  if (!options.templates.empty()) out["templates"] = json::value_from(options.templates);
  if (!options.places.empty() && options.variable.empty())
    return make_error(Code::kInvalid, "--in needs --placeholder");
  if (!options.variable.empty()) {
    TRY(out["placeholder"], placeholder_places(options));
  }
  return out;
}

void print_secret(const json::value& secret, const Globals& globals, std::string_view what) {
  if (globals.json) return print_json(secret);
  write_out(fmt::format("{} {} version {}\n", what, printable(text_at(secret, "name")),
                        number_at(secret, "currentVersion")));
}

Task<Result<int>> set(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(json::object body, new_secret_body(options));
  CO_TRY(Secret value, read_secret(options.name));
  body["value"] = value.reveal();
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  json::value request = std::move(body);
  auto made = co_await api->call("POST", "/secrets", std::move(request));
  if (!made.ok()) co_return std::move(made).error();
  for (const auto& host : options.hosts) {
    CO_TRY(json::value binding, binding_body(options, host));
    auto bound = co_await api->call("POST", "/v1/bindings", std::move(binding));
    if (!bound.ok())
      co_return std::move(bound).error().context(fmt::format("the secret is set, but not bound to {}", host));
  }
  print_secret(made->body, globals, "set");
  co_return kExitOk;
}

Task<Result<int>> rotate(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(Secret value, read_secret(options.name));
  json::object fields{{"value", value.reveal()}};
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  json::value request = std::move(fields);
  auto done = co_await api->call("POST", secret_path(options), std::move(request));
  if (!done.ok() && done.error().code() == Code::kNotFound) co_return no_such_secret(options.name);
  if (!done.ok()) co_return std::move(done).error();
  print_secret(done->body, globals, "rotated");
  co_return kExitOk;
}

std::vector<std::string> secret_row(const json::value& one) {
  const json::value* config = find_at(one, "credential");
  return {printable(text_at(one, "name")), printable(text_at(one, "secretID")),
          config != nullptr ? printable(text_at(*config, "type")) : "plain",
          fmt::format("{}", number_at(one, "currentVersion")), printable(text_at(one, "updatedAt"))};
}

Task<Result<int>> list(Session& session, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  CO_TRY(json::array secrets, co_await api->list("/secrets"));
  print_list(secrets, globals.json, {"NAME", "ID", "KIND", "VERSION", "UPDATED"}, secret_row);
  co_return kExitOk;
}

Task<Result<int>> remove(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  auto done = co_await api->call("DELETE", secret_path(options));
  if (!done.ok() && done.error().code() == Code::kNotFound) co_return no_such_secret(options.name);
  if (!done.ok()) co_return std::move(done).error();
  if (globals.json)
    print_json(json::object({{"removed", options.name}}));
  else
    write_out("removed " + options.name + "\n");
  co_return kExitOk;
}

Task<Result<int>> bind(Session& session, const Options& options, const Globals& globals) {
  if (options.hosts.empty()) co_return make_error(Code::kInvalid, "bind: --host is required");
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  for (const auto& host : options.hosts) {
    CO_TRY(json::value request, binding_body(options, host));
    CO_TRY(ApiReply made, co_await api->call("POST", "/v1/bindings", std::move(request)));
    if (globals.json)
      print_json(made.body);
    else
      write_out(printable(text_at(made.body, "bindingID")) + "\n");
  }
  co_return kExitOk;
}

std::string joined(const json::value* list) {
  if (list == nullptr || !list->is_array()) return "all";
  std::string out;
  for (const auto& one : list->as_array()) {
    if (one.is_string()) out += (out.empty() ? "" : ",") + printable(std::string_view(one.as_string()));
  }
  return out;
}

std::vector<std::string> binding_row(const json::value& one) {
  return {printable(text_at(one, "bindingID")), printable(text_at(one, "secretID")),
          printable(text_at(one, "host")),      fmt::format("{}", number_at(one, "port")),
          printable(text_at(one, "path")),      joined(find_at(one, "methods"))};
}

Task<Result<int>> bindings(Session& session, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  CO_TRY(json::array all, co_await api->list("/v1/bindings"));
  print_list(all, globals.json, {"ID", "SECRET", "HOST", "PORT", "PATH", "METHODS"}, binding_row);
  co_return kExitOk;
}

Task<Result<int>> unbind(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  std::string path = "/v1/bindings/" + http::percent_encode(options.binding);
  CO_TRY_VOID(co_await api->call("DELETE", path));
  if (globals.json)
    print_json(json::object({{"removed", options.binding}}));
  else
    write_out("removed " + options.binding + "\n");
  co_return kExitOk;
}

Task<Result<int>> authorize(Session& session, const Options& options, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  std::string path = "/v1/secrets/" + http::percent_encode(options.name) + "/authorization";
  if (!options.state.empty()) {
    json::value request = json::object{{"state", options.state}, {"code", options.code}};
    std::string finish = path + "/finish";
    CO_TRY_VOID(co_await api->call("POST", finish, std::move(request)));
    write_out("authorized " + options.name + "\n");
    co_return kExitOk;
  }
  CO_TRY(ApiReply begun, co_await api->call("POST", path));
  if (globals.json) {
    print_json(begun.body);
    co_return kExitOk;
  }
  write_out("open " + printable(text_at(begun.body, "url")) + "\n");
  auto user_code = printable(text_at(begun.body, "userCode"));
  if (user_code.empty()) {
    print_note("the browser is then sent back with a code; hand it over with:");
    print_note(fmt::format("atoll secret authorize {} --state {} --code CODE", printable(options.name),
                           printable(text_at(begun.body, "state"))));
    co_return kExitOk;
  }
  write_out("and type in " + user_code + "\n");
  co_return co_await wait_for_device(api, path + "/finish",
                                     static_cast<int>(number_at(begun.body, "intervalSeconds", 5)));
}

Task<Result<int>> rekey(Session& session, const Globals& globals) {
  CO_TRY(auto api, ApiClient::open(session, globals.instance));
  CO_TRY(ApiReply done, co_await api->call("POST", "/v1/vault/key"));
  if (globals.json) {
    print_json(done.body);
    co_return kExitOk;
  }
  write_out("the vault is sealed with " + printable(text_at(done.body, "fingerprint")) + "\n");
  print_note(
      "master.key of the gateway has the new key: take a copy of it, the old one opens nothing any more");
  co_return kExitOk;
}

using Options_ = std::shared_ptr<Options>;
using Run = Task<Result<int>> (*)(Session&, const Options&, const Globals&);

std::function<Result<int>(const Globals&)> action(Options_ options, Run run) {
  return [options, run](const Globals& globals) -> Result<int> {
    return Session().run([&](Session& session) { return run(session, *options, globals); });
  };
}

void add_binding_options(Commands& commands, CLI::App& app, Options& options) {
  commands.add_list(app, "--host", "HOST", &options.hosts, "a name, *.domain or an address");
  app.add_option("--port", options.port, "of the host (default: 443)")->check(CLI::Range(1, 65535));
  app.add_option("--under", options.path, "only for this path and what is below it")->type_name("PREFIX");
  commands.add_list(app, "--method", "METHOD", &options.methods, "only for this method");
  commands.add_list(app, "--sandbox", "ID", &options.sandboxes, "only for this sandbox");
  commands.add_list(app, "--template", "ID", &options.templates, "only for sandboxes of this template");
  app.add_option("--placeholder", options.variable,
                 "give sandboxes this variable, whose value stands for the secret")
      ->type_name("VARIABLE");
  commands.add_list(app, "--in", "PLACE", &options.places,
                    "where it may stand: header:NAME, query:KEY, body:/JSON/POINTER or path (default: the "
                    "headers authorization and x-api-key)");
}

void register_secrets(Commands& commands, CLI::App& secret, const Options_& options) {
  CLI::App& set_app = commands.add(&secret, "set", "set a new secret; its value is read from standard input",
                                   "  # goes into requests to one host, and never into a sandbox\n"
                                   "  atoll secret set anthropic --kind header --field name=x-api-key"
                                   " --host api.anthropic.com < key.txt",
                                   action(options, set));
  set_app.add_option("NAME", options->name, "letters, digits, '.', '_' and '-'")->required();
  set_app.add_option("--kind", options->kind, "how it goes into a request (default: plain)")
      ->type_name("KIND")
      ->check(CLI::IsMember({"plain", "header", "bearer", "basic", "query", "aws_sigv4", "oauth2",
                             "tls_client", "github_app", "jwt"}));
  commands.add_list(set_app, "--field", "NAME=VALUE", &options->fields,
                    "a field of the kind, as name=x-api-key");
  commands.add_list(set_app, "--metadata", "NAME=VALUE", &options->metadata, "kept beside it");
  add_binding_options(commands, set_app, *options);
  commands.add(&secret, "list", "show secrets, without their values", "  atoll secret list --json",
               [](const Globals& globals) -> Result<int> {
                 return Session().run([&](Session& s) { return list(s, globals); });
               });
  CLI::App& rotate_app =
      commands.add(&secret, "rotate", "give one a new value, read from standard input",
                   "  atoll secret rotate anthropic < new-key.txt", action(options, rotate));
  rotate_app.add_option("NAME", options->name, "its name or id")->required();
  commands.add(&secret, "rekey", "seal all with a new master key", "  atoll secret rekey",
               [](const Globals& globals) -> Result<int> {
                 return Session().run([&](Session& s) { return rekey(s, globals); });
               });
  CLI::App& remove_app = commands.add(&secret, "rm", "remove one and its bindings",
                                      "  atoll secret rm anthropic", action(options, remove));
  remove_app.add_option("NAME", options->name, "its name or id")->required();
}

void register_bindings(Commands& commands, CLI::App& secret, const Options_& options) {
  CLI::App& bind_app = commands.add(&secret, "bind", "put one into requests to a host",
                                    "  atoll secret bind anthropic --host api.anthropic.com --under /v1",
                                    action(options, bind));
  bind_app.add_option("NAME", options->name, "its name or id")->required();
  add_binding_options(commands, bind_app, *options);
  commands.add(&secret, "bindings", "show what goes where", "  atoll secret bindings",
               [](const Globals& globals) -> Result<int> {
                 return Session().run([&](Session& s) { return bindings(s, globals); });
               });
  CLI::App& unbind_app = commands.add(&secret, "unbind", "end a binding", "  atoll secret unbind bnd_…",
                                      action(options, unbind));
  unbind_app.add_option("BINDING", options->binding, "its id, from 'atoll secret bindings'")->required();
  CLI::App& authorize_app = commands.add(&secret, "authorize", "let a person authorize one of kind oauth2",
                                         "  atoll secret authorize tracker", action(options, authorize));
  authorize_app.add_option("NAME", options->name, "its name or id")->required();
  auto* state =
      authorize_app.add_option("--state", options->state, "what the first call printed")->type_name("STATE");
  authorize_app.add_option("--code", options->code, "what the browser was sent back with")
      ->type_name("CODE")
      ->needs(state);
}

}  // namespace

void register_secret(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& secret =
      commands.add(nullptr, "secret", "set, list, rotate and remove secrets, and bind them to hosts",
                   "  atoll secret set anthropic < key.txt\n  atoll secret list", nullptr);
  register_secrets(commands, secret, options);
  register_bindings(commands, secret, options);
}

}  // namespace atl::cli
