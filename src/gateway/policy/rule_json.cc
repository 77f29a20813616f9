// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "base/text.h"
#include "gateway/policy/rule.h"
#include "http/json.h"
#include "http/syntax.h"

namespace atl::gateway::policy {
namespace {

namespace json = boost::json;
using http::Fields;

constexpr std::int64_t kMaxBodyBound = std::int64_t{1} << 50;
constexpr std::uint32_t kMaxRateCount = 1'000'000;
constexpr std::size_t kMaxMethod = 32;

// Fields that say where a message ends, who it is for, or that belong to one connection.
constexpr std::string_view kFraming[] = {
    "host",    "content-length", "transfer-encoding",   "connection", "te",
    "trailer", "upgrade",        "proxy-authorization", "keep-alive", "expect"};

std::string_view key_of(const json::key_value_pair& pair) { return {pair.key().data(), pair.key().size()}; }

void refuse_unknown(Fields& fields, std::initializer_list<std::string_view> known) {
  for (const auto& pair : fields.raw()) {
    if (std::find(known.begin(), known.end(), key_of(pair)) == known.end())
      fields.refuse(key_of(pair), "is not known here");
  }
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxName && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

// One list of texts, each read by `read`, which gives a Result.
template <class T, class Read>
std::vector<T> list_of(Fields& fields, std::string_view key, std::size_t max, Read read) {
  std::vector<T> out;
  auto texts = fields.texts(key, max);
  if (!texts) return out;
  if (texts->empty()) fields.refuse(key, "must not be empty; leave it out to restrict nothing");
  for (std::size_t i = 0; i < texts->size(); ++i) {
    Result<T> item = read((*texts)[i]);
    if (item.ok()) {
      out.push_back(*std::move(item));
    } else {
      fields.refuse(fmt::format("{}[{}]", key, i), item.error().message());
    }
  }
  return out;
}

std::string name_of(Fields& fields, std::string_view key) {
  auto text = fields.text(key, kMaxName);
  if (text && !is_name(*text)) fields.refuse(key, "must be 1 to 64 letters, digits, '-', '_' or '.'");
  return std::move(text).value_or("");
}

Result<std::string> read_label(const std::string& text) {
  if (!is_name(text)) return make_error(Code::kInvalid, "must be 1 to 64 letters, digits, '-', '_' or '.'");
  return text;
}

Result<std::string> read_method(const std::string& text) {
  bool upper = std::none_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  if (!http::is_token(text) || !upper || text.size() > kMaxMethod)
    return make_error(Code::kInvalid, "must be a method in upper case, like GET");
  return text;
}

Result<PortRange> read_port_range(std::string_view text) {
  auto dash = text.find('-');
  auto first = parse_number<std::uint16_t>(text.substr(0, dash));
  auto last = dash == std::string_view::npos ? first : parse_number<std::uint16_t>(text.substr(dash + 1));
  if (!first || !last || *first == 0 || *first > *last)
    return make_error(Code::kInvalid, "must be a port from 1 to 65535, or a range like \"8000-8100\"");
  return PortRange{*first, *last};
}

std::vector<PortRange> read_ports(Fields& fields) {
  std::vector<PortRange> out;
  const json::array* list = fields.array("ports");
  if (!list) return out;
  if (list->empty() || list->size() > kMaxItems) fields.refuse("ports", "must have 1 to 64 entries");
  for (std::size_t i = 0; i < list->size() && i < kMaxItems; ++i) {
    const json::value& item = (*list)[i];
    std::string text;
    if (item.is_int64()) text = std::to_string(item.get_int64());
    if (item.is_string()) text = std::string(item.get_string());
    auto range = read_port_range(text);
    if (range.ok()) {
      out.push_back(*range);
    } else {
      fields.refuse(fmt::format("ports[{}]", i), range.error().message());
    }
  }
  return out;
}

std::optional<Rate> read_rate(Fields& fields) {
  auto text = fields.text("rate", 32);
  if (!text) return std::nullopt;
  auto slash = text->find('/');
  auto count = parse_number<std::uint32_t>(std::string_view(*text).substr(0, slash));
  auto unit = slash == std::string::npos ? std::string() : text->substr(slash + 1);
  std::uint32_t seconds = unit == "s" ? 1 : unit == "min" ? 60 : unit == "h" ? 3600 : 0;
  if (count && *count > 0 && *count <= kMaxRateCount && seconds > 0) return Rate{*count, seconds};
  fields.refuse("rate", "must be like \"10/s\", \"60/min\" or \"1000/h\"");
  return std::nullopt;
}

std::shared_ptr<const Expression> read_when(Fields& fields) {
  auto text = fields.text("when", kMaxExpressionBytes);
  if (!text) return nullptr;
  auto compiled = Expression::compile(*text);
  if (compiled.ok()) return *std::move(compiled);
  fields.refuse("when", compiled.error().message());
  return nullptr;
}

std::vector<HeaderSet> read_headers(Fields& fields) {
  std::vector<HeaderSet> out;
  auto map = fields.map("setHeaders", kMaxSetHeaders, kMaxHeaderValue);
  if (!map) return out;
  for (const auto& [name, value] : *map) {
    auto field = make_header_set(name, value);
    if (!field.ok()) {
      fields.refuse("setHeaders." + printable(name.substr(0, kMaxHeaderName)), field.error().message());
      continue;
    }
    bool twice = std::any_of(out.begin(), out.end(),
                             [&](const HeaderSet& other) { return other.name == field->name; });
    if (twice) fields.refuse("setHeaders." + field->name, "is there in two spellings");
    out.push_back(*std::move(field));
  }
  return out;
}

Action read_action(Fields& fields) {
  auto text = fields.text("action", 16);
  for (Action action : {Action::kDeny, Action::kAllow, Action::kAsk, Action::kAdjust}) {
    if (text == action_name(action)) return action;
  }
  fields.refuse("action", "must be \"allow\", \"deny\", \"ask\" or \"adjust\"");
  return Action::kDeny;
}

Protocol read_protocol(Fields& fields) {
  auto text = fields.text("protocol", 16);
  if (!text || *text == "tcp") return Protocol::kAny;
  if (*text == "http") return Protocol::kHttp;
  if (*text == "tls") return Protocol::kTls;
  // A rule that nobody enforces would pass for one that is.
  fields.refuse("protocol", *text == "udp"
                                ? "cannot be \"udp\": of datagrams only DNS leaves sandboxes in this version"
                                : "must be \"http\", \"tls\" or \"tcp\"");
  return Protocol::kAny;
}

bool any_block(const std::vector<HostPattern>& hosts) {
  return std::any_of(hosts.begin(), hosts.end(), [](const HostPattern& host) { return host.is_address(); });
}

// Fields that make no sense together are mistakes, and a mistake in a rule must not pass for a restriction.
void check_together(Fields& fields, const Rule& rule) {
  if (rule.hosts.empty())
    fields.refuse("hosts", "is required; \"*\" is any name, \"0.0.0.0/0\" and \"::/0\" any address");
  if (rule.action == Action::kDeny) {
    if (rule.changes_requests())
      fields.refuse("action", "a denied request is not sent: no credential, no setHeaders");
    if (rule.max_body_bytes)
      fields.refuse("maxBodyBytes", "is for what is let through; write when: \"size > N\" here");
    if (rule.rate) fields.refuse("rate", "is for what is let through");
  }
  if (rule.action == Action::kAdjust && !rule.changes_requests() && !rule.max_body_bytes && !rule.rate)
    fields.refuse("action", "\"adjust\" needs credential, setHeaders, maxBodyBytes or rate");
  for (const char* key : {"holdSeconds", "expireSeconds"}) {
    if (rule.action != Action::kAsk && fields.raw().contains(key)) fields.refuse(key, "is for \"ask\"");
  }
  if (rule.via_name && !any_block(rule.hosts)) fields.refuse("viaName", "is for blocks in hosts");
  if (rule.protocol == Protocol::kTls &&
      (!rule.methods.empty() || !rule.paths.empty() || rule.changes_requests()))
    fields.refuse("protocol", "must be \"http\" for what looks into requests; those in TLS belong to it");
  bool anywhere =
      rule.via_name || std::any_of(rule.hosts.begin(), rule.hosts.end(), [](const HostPattern& host) {
        return host.any_name() || (host.is_address() && host.block().prefix() < host.block().base().bits());
      });
  if (!rule.credential.empty() && anywhere)
    fields.refuse("credential", "goes to named hosts only, not to \"*\" or a block");
}

Rule read_rule(Fields fields, std::size_t number) {
  refuse_unknown(fields, {"id", "action", "hosts", "except", "ports", "protocol", "methods", "paths",
                          "asSpelled", "viaName", "maxBodyBytes", "rate", "labels", "when", "credential",
                          "setHeaders", "reason", "holdSeconds", "expireSeconds"});
  Rule rule;
  rule.id = name_of(fields, "id");
  if (rule.id.empty()) rule.id = std::to_string(number);
  rule.action = read_action(fields);
  auto host = [](const std::string& text) { return parse_host_pattern(text); };
  rule.hosts = list_of<HostPattern>(fields, "hosts", kMaxHosts, host);
  rule.except = list_of<HostPattern>(fields, "except", kMaxHosts, host);
  rule.ports = read_ports(fields);
  rule.protocol = read_protocol(fields);
  rule.methods = list_of<std::string>(fields, "methods", kMaxItems, read_method);
  rule.paths = list_of<PathPattern>(fields, "paths", kMaxItems, parse_path_pattern);
  rule.as_spelled = fields.boolean("asSpelled").value_or(false);
  rule.via_name = fields.boolean("viaName").value_or(false);
  if (auto bytes = fields.integer("maxBodyBytes", 0, kMaxBodyBound))
    rule.max_body_bytes = static_cast<std::uint64_t>(*bytes);
  rule.rate = read_rate(fields);
  rule.labels = list_of<std::string>(fields, "labels", kMaxItems, read_label);
  rule.when = read_when(fields);
  rule.credential = name_of(fields, "credential");
  rule.set_headers = read_headers(fields);
  rule.reason = fields.text("reason", kMaxReason).value_or("");
  if (printable(rule.reason) != rule.reason) fields.refuse("reason", "must not contain control characters");
  if (auto seconds = fields.integer("holdSeconds", 0, kMaxHoldSeconds))
    rule.terms.hold_seconds = static_cast<std::uint32_t>(*seconds);
  if (auto seconds = fields.integer("expireSeconds", 1, kMaxExpireSeconds))
    rule.terms.expire_seconds = static_cast<std::uint32_t>(*seconds);
  if (fields.status().ok()) check_together(fields, rule);
  return rule;
}

void read_rules(Fields& fields, RuleSet& out) {
  const json::array* list = fields.array("rules");
  if (!list) return;
  if (list->size() > kMaxRules) {
    fields.refuse("rules", fmt::format("must not have more than {} entries", kMaxRules));
    return;
  }
  std::set<std::string> ids;
  for (std::size_t i = 0; i < list->size(); ++i) {
    std::string place = fmt::format("rules[{}]", i);
    if (!(*list)[i].is_object()) {
      fields.refuse(place, "must be an object");
      return;
    }
    Fields inner((*list)[i].get_object());
    Rule rule = read_rule(inner, i + 1);
    if (auto status = inner.status(); !status.ok()) {
      fields.refuse(place, status.error().message());
      return;
    }
    if (!ids.insert(rule.id).second)
      fields.refuse(place + ".id", "'" + rule.id + "' is the id of another rule");
    out.rules.push_back(std::move(rule));
  }
}

}  // namespace

std::string_view action_name(Action action) {
  switch (action) {
    case Action::kDeny: return "deny";
    case Action::kAllow: return "allow";
    case Action::kAsk: return "ask";
    case Action::kAdjust: return "adjust";
  }
  return "unknown";
}

std::string_view source_name(Source source) {
  switch (source) {
    case Source::kOperator: return "operator";
    case Source::kTenant: return "tenant";
    case Source::kTemplate: return "template";
    case Source::kSandbox: return "sandbox";
  }
  return "unknown";
}

Result<HeaderSet> make_header_set(std::string_view name, std::string_view value) {
  std::string lower = to_lower(name);
  if (!http::is_token(name) || name.size() > kMaxHeaderName)
    return make_error(Code::kInvalid, "must be the name of a header field of at most 64 bytes");
  if (std::find(std::begin(kFraming), std::end(kFraming), lower) != std::end(kFraming))
    return make_error(Code::kInvalid, "is set by the gateway itself");
  if (value.size() > kMaxHeaderValue || !http::is_field_value(value))
    return make_error(Code::kInvalid,
                      "must be at most 2048 bytes without control characters or blanks around it");
  return HeaderSet{std::move(lower), std::string(value)};
}

Result<RuleSet> parse_rule_set(std::string_view text, Source source) {
  if (text.size() > kMaxRuleSetBytes) return make_error(Code::kTooLarge, "the rules are larger than 256 KiB");
  TRY(json::value value, http::parse_json(text));
  if (!value.is_object())
    return make_error(Code::kInvalid, "the rules must be an object: {{\"version\": 1, \"rules\": [...]}}");
  return read_rule_set(value.get_object(), source);
}

Result<RuleSet> read_rule_set(const json::object& object, Source source) {
  Fields fields(object);
  refuse_unknown(fields, {"version", "default", "shadow", "rules"});
  RuleSet out{.source = source};
  if (fields.integer("version", 1, 1) != 1) fields.refuse("version", "is required, and is 1");
  out.shadow = fields.boolean("shadow").value_or(false);
  if (auto text = fields.text("default", 16)) {
    if (*text == "allow") out.otherwise = Action::kAllow;
    if (*text == "deny") out.otherwise = Action::kDeny;
    if (!out.otherwise) fields.refuse("default", "must be \"allow\" or \"deny\"");
  }
  read_rules(fields, out);
  TRY_VOID(fields.status());
  return out;
}

}  // namespace atl::gateway::policy
