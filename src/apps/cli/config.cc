// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/config.h"

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "apps/cli/suggest.h"
#include "base/patience.h"
#include "base/text.h"
#include "base/units.h"
#include "model/isolation.h"
#include "net/tcp.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

constexpr std::uint32_t kMaxSlots = 4096;  // uid ranges are laid out for no more
constexpr std::size_t kMaxListen = 8;

// Sets one field from a TOML value; false when the type is wrong. `wants` says what was expected.
struct Key {
  std::string wants;
  std::function<bool(Config&, const toml::node&)> set;
};

Key text_key(std::string Config::* field) {
  return {"text in quotes", [field](Config& config, const toml::node& node) {
            const auto* value = node.as_string();
            if (value != nullptr) config.*field = value->get();
            return value != nullptr;
          }};
}

Key number_key(std::uint32_t Config::* field) {
  return {"a whole number from 0 to 65536", [field](Config& config, const toml::node& node) {
            const auto* value = node.as_integer();
            if (value == nullptr || value->get() < 0 || value->get() > 65536) return false;
            config.*field = static_cast<std::uint32_t>(value->get());
            return true;
          }};
}

bool set_listen(Config& config, const toml::node& node) {
  std::vector<std::string> list;
  if (const auto* one = node.as_string()) list.push_back(one->get());
  const auto* many = node.as_array();
  if (list.empty() && many == nullptr) return false;
  for (std::size_t i = 0; many != nullptr && i < many->size(); ++i) {
    const auto* item = many->get(i)->as_string();
    if (item == nullptr) return false;
    list.push_back(item->get());
  }
  config.listen = std::move(list);
  return true;
}

bool set_plain(Config& config, const toml::node& node) {
  const auto* value = node.as_string();
  if (value == nullptr || (value->get() != "loopback" && value->get() != "anywhere")) return false;
  config.plain = value->get() == "anywhere" ? Plain::kAnywhere : Plain::kLoopback;
  return true;
}

Key flag_key(bool Config::* field) {
  return {"true or false", [field](Config& config, const toml::node& node) {
            const auto* value = node.as_boolean();
            if (value != nullptr) config.*field = value->get();
            return value != nullptr;
          }};
}

bool set_default_isolation(Config& config, const toml::node& node) {
  const auto* value = node.as_string();
  if (value == nullptr || !model::parse_host_default(value->get())) return false;
  config.default_isolation = value->get();
  return true;
}

// Every key there is, by its dotted name.
const std::map<std::string, Key>& keys() {
  static const std::map<std::string, Key> table{
      {"instance", text_key(&Config::instance)},
      {"data_dir", text_key(&Config::data_dir)},
      {"run_dir", text_key(&Config::run_dir)},
      {"user", text_key(&Config::user)},
      {"default_isolation", {"\"container\", \"gvisor\", \"microvm\" or \"auto\"", set_default_isolation}},
      {"server.listen", {"an address such as \"127.0.0.1:7400\", or a list of them", set_listen}},
      {"server.plain", {"\"loopback\" or \"anywhere\"", set_plain}},
      {"server.domain", text_key(&Config::domain)},
      {"slots.first", number_key(&Config::slot_first)},
      {"slots.count", number_key(&Config::slot_count)},
      {"pool.ready", number_key(&Config::ready_sandboxes)},
      {"templates.base", flag_key(&Config::base_template)},
      {"templates.first_use", flag_key(&Config::first_use)},
      {"microvm.emulation", flag_key(&Config::microvm_emulation)},
      {"patience", number_key(&Config::patience)},
      {"pause.evict", flag_key(&Config::evict_paused)},
      {"gateway.enabled", flag_key(&Config::gateway)},
      {"gateway.rules", text_key(&Config::gateway_rules)},
      {"gateway.port", number_key(&Config::gateway_port)},
  };
  return table;
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const auto& [name, key] : keys()) names.push_back(name);
  return names;
}

Error at_line(const std::string& name, const toml::node& node, std::string message, std::string hint) {
  return make_error(Code::kInvalid, "{}:{}: {}", name, node.source().begin.line, message)
      .with_word("bad_config")
      .with_hint(std::move(hint));
}

Result<void> read_table(const toml::table& table, const std::string& prefix, const std::string& name,
                        Config& config) {
  for (auto&& [key, node] : table) {
    std::string dotted = prefix + std::string(key.str());
    auto known = keys().find(dotted);
    if (known != keys().end()) {
      if (known->second.set(config, node)) continue;
      return at_line(name, node, fmt::format("'{}' must be {}", dotted, known->second.wants), "");
    }
    const auto* inner = node.as_table();
    if (inner != nullptr && prefix.empty()) {
      TRY_VOID(read_table(*inner, dotted + ".", name, config));
      continue;
    }
    std::string meant = suggest(dotted, key_names());
    return at_line(
        name, node, fmt::format("unknown key '{}'", printable(dotted)),
        meant.empty() ? "the keys are described in atoll.toml(5)" : fmt::format("did you mean '{}'?", meant));
  }
  return success();
}

// A short name of a-z, 0-9, _ and the characters in `more`, beginning with a letter.
bool plain_word(std::string_view text, std::size_t limit, std::string_view more) {
  auto fine = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           more.find(c) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= limit && text.front() >= 'a' && text.front() <= 'z' &&
         std::all_of(text.begin(), text.end(), fine);
}

Result<void> check_listen(const Config& config) {
  if (config.listen.empty() || config.listen.size() > kMaxListen) {
    return make_error(Code::kInvalid, "give 1 to {} addresses to listen on", kMaxListen);
  }
  for (const std::string& address : config.listen) {
    auto parsed = net::parse_endpoint(address, net::AnyPort::kYes);
    if (!parsed.ok()) return std::move(parsed).error().with_hint("write for example --listen 127.0.0.1:7400");
  }
  return success();
}

}  // namespace

Result<Config> parse_config(std::string_view text, const std::string& name, Config base) {
  toml::parse_result parsed = toml::parse(text, name);
  if (!parsed) {
    const toml::parse_error& failure = parsed.error();
    return make_error(Code::kInvalid, "{}:{}: {}", name, failure.source().begin.line, failure.description())
        .with_word("bad_config");
  }
  TRY_VOID(read_table(parsed.table(), "", name, base));
  return base;
}

Result<Config> load_config(const std::string& path, Required required) {
  auto text = sys::read_file(path, kMiB);
  if (text.ok()) return parse_config(*text, path);
  bool absent = text.error().code() == Code::kNotFound;
  if (absent && required == Required::kNo) return Config{};
  return std::move(text).error();
}

Result<void> check_config(const Config& config) {
  if (!plain_word(config.instance, 24, "")) {
    return make_error(Code::kInvalid,
                      "the instance name '{}' must be 1 to 24 of a-z, 0-9 and _, and begin with a letter",
                      printable(config.instance));
  }
  if (!plain_word(config.user, 32, "-"))
    return make_error(Code::kInvalid, "'{}' is no user name", printable(config.user));
  for (const std::string& path : {config.data_dir, config.run_dir}) {
    bool fine =
        path.size() > 1 && path.front() == '/' && path.find("/../") == std::string::npos && path.size() < 80;
    if (!fine) {
      return make_error(Code::kInvalid,
                        "'{}' is no usable directory: give an absolute path of at most 80 characters",
                        printable(path));
    }
  }
  if (config.data_dir == config.run_dir)
    return make_error(Code::kInvalid, "data and run directory must differ");
  if (config.slot_count == 0 || config.slot_first + config.slot_count > kMaxSlots) {
    return make_error(Code::kInvalid, "slots {} to {} do not fit: at least one, and all below {}",
                      config.slot_first, config.slot_first + config.slot_count, kMaxSlots);
  }
  if (config.patience == 0 || config.patience > kMaxPatience)
    return make_error(Code::kInvalid, "patience must be from 1 to {}, not {}", kMaxPatience, config.patience);
  if (!config.gateway_rules.empty() && config.gateway_rules.front() != '/')
    return make_error(Code::kInvalid, "gateway.rules must be an absolute path, not '{}'",
                      printable(config.gateway_rules));
  if (config.gateway_port > 65535)
    return make_error(Code::kInvalid, "gateway.port must be from 0 to 65535, not {}", config.gateway_port);
  if (config.domain.empty() || config.domain.find_first_of(" /:") != std::string::npos) {
    return make_error(Code::kInvalid, "'{}' is no domain name", printable(config.domain));
  }
  return check_listen(config);
}

}  // namespace atl::cli
