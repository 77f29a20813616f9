// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/target.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

#include <boost/json.hpp>

#include "apps/cli/caller.h"
#include "base/text.h"
#include "base/units.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

namespace json = boost::json;

constexpr char kStartHint[] = "start Atoll with 'sudo atoll up', or set ATOLL_API_URL and ATOLL_API_KEY";

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string text_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

std::optional<Target> target_from_environment() {
  Target target;
  target.api_url = env("ATOLL_API_URL");
  if (target.api_url.empty()) target.api_url = env("E2B_API_URL");
  if (target.api_url.empty()) return std::nullopt;
  std::string key = env("ATOLL_API_KEY");
  target.api_key = Secret(key.empty() ? env("E2B_API_KEY") : key);
  target.sandbox_url = env("E2B_SANDBOX_URL");
  target.ca_file = env("ATOLL_CA_FILE");
  if (target.ca_file.empty()) target.ca_file = env("NODE_EXTRA_CA_CERTS");
  target.domain = env("E2B_DOMAIN");
  return target;
}

}  // namespace

std::string Url::authority() const {
  bool default_port = port == (tls ? 443 : 80);
  std::string name = host.find(':') != std::string::npos ? "[" + host + "]" : host;
  return default_port ? name : fmt::format("{}:{}", name, port);
}

Result<Url> parse_url(std::string_view text) {
  auto bad = [&](const char* why) {
    return make_error(Code::kInvalid, "'{}' is not a usable URL: {}", printable(text), why)
        .with_hint("write for example http://127.0.0.1:7400");
  };
  Url url;
  std::string_view rest = text;
  if (rest.starts_with("https://"))
    url.tls = true;
  else if (!rest.starts_with("http://"))
    return bad("it must begin with http:// or https://");
  rest.remove_prefix(url.tls ? 8 : 7);
  std::size_t slash = rest.find('/');
  if (slash != std::string_view::npos) {
    url.path = std::string(rest.substr(slash));
    rest = rest.substr(0, slash);
    while (!url.path.empty() && url.path.back() == '/') url.path.pop_back();
  }
  if (text.find_first_of("?#@ ") != std::string_view::npos)
    return bad("no user, query or fragment may be in it");
  std::size_t end = rest.starts_with('[') ? rest.find(']') : rest.find(':');
  if (rest.starts_with('[') && end == std::string_view::npos)
    return bad("the address has no closing bracket");
  url.host = std::string(rest.starts_with('[') ? rest.substr(1, end - 1) : rest.substr(0, end));
  std::string_view after =
      end == std::string_view::npos ? "" : rest.substr(rest.starts_with('[') ? end + 1 : end);
  if (url.host.empty()) return bad("the host is missing");
  url.port = url.tls ? 443 : 80;
  if (after.empty()) return url;
  auto port = parse_number<std::uint16_t>(after.substr(1));
  if (after.front() != ':' || !port || *port == 0) return bad("the port is not a number from 1 to 65535");
  url.port = *port;
  return url;
}

Url sandbox_url_of(const Url& api) {
  bool address = api.host.find(':') != std::string::npos ||
                 api.host.find_first_not_of("0123456789.") == std::string::npos;
  Url url = api;
  if (!address && api.host != "localhost") url.host = "sandbox." + api.host;
  return url;
}

std::string credentials_json(const Credentials& credentials) {
  json::object instances;
  for (const auto& [name, target] : credentials.instances) {
    instances[name] = json::object{{"api_url", target.api_url},
                                   {"sandbox_url", target.sandbox_url},
                                   {"api_key", target.api_key.reveal()},
                                   {"ca_file", target.ca_file},
                                   {"domain", target.domain},
                                   {"run_dir", target.run_dir},
                                   {"data_dir", target.data_dir}};
  }
  json::object root{{"version", 1}, {"current", credentials.current}, {"instances", std::move(instances)}};
  return json::serialize(root) + "\n";
}

Result<Credentials> parse_credentials(std::string_view text) {
  boost::system::error_code failure;
  json::value root = json::parse(text, failure);
  const json::object* object = root.if_object();
  const json::value* list = object != nullptr ? object->if_contains("instances") : nullptr;
  if (failure || list == nullptr || !list->is_object()) {
    return make_error(Code::kCorrupt, "the credentials file is not what 'atoll up' writes");
  }
  Credentials credentials;
  credentials.current = text_of(*object, "current");
  for (const auto& item : list->as_object()) {
    const json::object* entry = item.value().if_object();
    if (entry == nullptr)
      return make_error(Code::kCorrupt, "the credentials file has an entry that is no object");
    Target target;
    target.api_url = text_of(*entry, "api_url");
    target.sandbox_url = text_of(*entry, "sandbox_url");
    target.api_key = Secret(text_of(*entry, "api_key"));
    target.ca_file = text_of(*entry, "ca_file");
    target.domain = text_of(*entry, "domain");
    target.run_dir = text_of(*entry, "run_dir");
    target.data_dir = text_of(*entry, "data_dir");
    credentials.instances.emplace(std::string(item.key()), std::move(target));
  }
  return credentials;
}

std::string credentials_path(const std::string& home, const std::string& xdg) {
  return (xdg.empty() ? home + "/.config" : xdg) + "/atoll/credentials.json";
}

std::string own_credentials_path() {
  std::string home = env("HOME");
  if (home.empty()) {
    const passwd* entry = ::getpwuid(::getuid());
    home = entry != nullptr ? entry->pw_dir : "/";
  }
  return credentials_path(home, env("XDG_CONFIG_HOME"));
}

Result<Credentials> load_credentials(const std::string& path) {
  auto text = sys::read_file(path, kMiB);
  if (!text.ok()) return std::move(text).error();
  auto credentials = parse_credentials(*text);
  if (credentials.ok()) return credentials;
  return std::move(credentials).error().context(path).with_hint("run 'sudo atoll up' to write it again");
}

Result<Target> find_target(const std::string& instance) {
  if (instance.empty()) {
    if (auto target = target_from_environment()) return std::move(*target);
  }
  auto credentials = load_credentials(own_credentials_path());
  if (!credentials.ok() && ::getuid() == 0) {
    // `sudo atoll template build`: the credentials are those of the user behind sudo.
    auto caller = find_caller();
    if (caller.ok()) credentials = load_credentials(caller->credentials);
  }
  if (!credentials.ok() && credentials.error().code() != Code::kNotFound)
    return std::move(credentials).error();
  if (!credentials.ok()) {
    return make_error(Code::kUnauthenticated, "no Atoll is known to this user")
        .with_word("no_target")
        .with_hint(kStartHint);
  }
  std::string name = instance.empty() ? env("ATOLL_INSTANCE") : instance;
  if (name.empty()) name = credentials->current;
  auto found = credentials->instances.find(name);
  if (found != credentials->instances.end()) return std::move(found->second);
  return make_error(Code::kNotFound, "no installation '{}' is known to this user", printable(name))
      .with_hint(kStartHint);
}

}  // namespace atl::cli
