// SPDX-License-Identifier: Apache-2.0
#include "api/create_request.h"

#include <algorithm>

#include "api/egress_proxy.h"
#include "base/text.h"
#include "model/slot_address.h"

namespace atl::api {
namespace {

constexpr std::size_t kMaxEntries = 256;  // of metadata and of envVars
constexpr std::size_t kMaxMetadataValue = 8192;
constexpr std::size_t kMaxEnvValue =
    128 * 1024;  // MAX_ARG_STRLEN, execve(2): a longer one could not be passed on
constexpr std::size_t kMaxTemplateRef = 300;
constexpr std::size_t kMaxHost = 253;
constexpr char kEverywhere[] = "0.0.0.0/0";

// e2b-protocol §3.6; the same bounds as E2B's own checks.
constexpr std::size_t kMaxRuleHosts = 10;
constexpr std::size_t kMaxRuleHeaders = 20;
constexpr std::size_t kMaxHeaderName = 64;
constexpr std::size_t kMaxHeaderValue = 2048;
constexpr std::size_t kMaxHttpsPorts = 16;

bool domain_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

// A name, "*" or "*.name". Anything else is neither a domain nor an address.
bool valid_domain_pattern(std::string_view text) {
  if (text == "*") return true;
  if (text.substr(0, 2) == "*.") text.remove_prefix(2);
  if (text.empty() || text.size() > kMaxHost) return false;
  bool letter = false;
  for (auto label : split(text, '.')) {
    if (label.empty() || label.size() > 63 || label.front() == '-' || label.back() == '-') return false;
    if (!std::all_of(label.begin(), label.end(), domain_char)) return false;
    letter =
        letter || std::any_of(label.begin(), label.end(), [](char c) { return !(c >= '0' && c <= '9'); });
  }
  return letter;  // only digits and dots would be an address in another spelling
}

model::StringMap read_headers(Fields& transform) {
  auto headers = transform.map("headers", kMaxRuleHeaders, kMaxHeaderValue);
  if (!headers) return {};
  for (const auto& [name, value] : *headers) {
    if (name.size() > kMaxHeaderName)
      transform.refuse("headers." + name, fmt::format("name longer than {}", kMaxHeaderName));
  }
  return std::move(*headers);
}

void read_header_rules(Fields& network, model::NetworkRules& out) {
  auto rules = network.object("rules");
  if (!rules || rules->raw().empty()) return;
  if (rules->raw().size() > kMaxRuleHosts)
    network.refuse("rules", fmt::format("at most {} hosts", kMaxRuleHosts));
  for (const auto& [key, value] : rules->raw()) {
    std::string host(key);
    if (!valid_domain_pattern(host)) rules->refuse(host, "must be a domain name");
    const json::array* list = rules->array(host);
    if (!list) continue;
    if (list->size() > 1) rules->refuse(host, "at most one transform");
    for (const auto& item : *list) {
      if (!item.is_object()) {
        rules->refuse(host, "must be an array of objects");
        continue;
      }
      Fields rule(item.get_object());
      if (auto transform = rule.object("transform")) out.headers[host] = read_headers(*transform);
      if (auto status = rule.status(); !status) rules->refuse(host, status.error().message());
    }
  }
}

void read_https_ports(Fields& network, model::NetworkRules& out) {
  const json::array* ports = network.array("httpsPorts");
  for (std::size_t i = 0; ports && i < ports->size(); ++i) {
    const json::value& port = (*ports)[i];
    if (port.is_int64() && port.get_int64() > 0 && port.get_int64() < 65536 && i < kMaxHttpsPorts)
      out.https_ports.push_back(static_cast<std::uint16_t>(port.get_int64()));
    else
      network.refuse(fmt::format("httpsPorts[{}]", i), "must be a port from 1 to 65535, at most 16 of them");
  }
}

void read_deny(Fields& network, model::NetworkRules& rules) {
  auto list = network.texts("denyOut", model::kMaxNetworkRules);
  for (std::size_t i = 0; list && i < list->size(); ++i) {
    auto cidr = model::parse_cidr((*list)[i]);
    if (!cidr) {
      network.refuse(fmt::format("denyOut[{}]", i),
                     "must be an IPv4 address or block, for example 10.1.2.0/24");
    } else if ((*list)[i] == kEverywhere) {
      rules.internet = false;
    } else if (std::find(rules.deny.begin(), rules.deny.end(), *cidr) == rules.deny.end()) {
      rules.deny.push_back(*cidr);
    }
  }
}

void read_allow(Fields& network, model::NetworkRules& rules) {
  auto list = network.texts("allowOut", model::kMaxNetworkRules);
  for (std::size_t i = 0; list && i < list->size(); ++i) {
    if (auto cidr = model::parse_cidr((*list)[i])) {
      if (std::find(rules.allow.begin(), rules.allow.end(), *cidr) == rules.allow.end())
        rules.allow.push_back(*cidr);
    } else if (!valid_domain_pattern((*list)[i])) {
      network.refuse(fmt::format("allowOut[{}]", i), "must be an IPv4 address or block, or a domain name");
    } else {
      rules.names.push_back((*list)[i]);
      if (rules.internet) {
        network.refuse(fmt::format("allowOut[{}]", i),
                       "a domain needs \"0.0.0.0/0\" in denyOut; otherwise everything is allowed anyway");
      }
    }
  }
}

void read_rules(Fields& network, model::NetworkRules& rules) {
  read_deny(network, rules);
  read_allow(network, rules);
  read_header_rules(network, rules);
  read_https_ports(network, rules);
  read_egress_proxy(network, rules);
}

void read_network(Fields& body, control::CreateSpec& spec) {
  if (body.boolean("allow_internet_access") == false) spec.network.internet = false;
  auto network = body.object("network");
  if (!network) return;
  read_rules(*network, spec.network);
  spec.ingress.allow_public = network->boolean("allowPublicTraffic").value_or(true);
  spec.ingress.mask_request_host = network->text("maskRequestHost", kMaxHost).value_or("");
  bool printable_host =
      std::all_of(spec.ingress.mask_request_host.begin(), spec.ingress.mask_request_host.end(),
                  [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (!printable_host) network->refuse("maskRequestHost", "must be a host name, with ${PORT} for the port");
  if (!spec.ingress.allow_public && spec.secured == control::CreateSpec::Secured::kNo) {
    network->refuse("allowPublicTraffic", "false needs a secured sandbox (secure: true)");
  }
}

void read_lifecycle(Millis max_timeout, Fields& body, control::CreateSpec& spec) {
  model::Lifecycle& out = spec.lifecycle;
  spec.idle_timeout = read_idle_timeout(max_timeout, body);
  bool sleeps = spec.idle_timeout && spec.idle_timeout->count() > 0;
  bool auto_pause = body.boolean("autoPause").value_or(false);
  if (auto_pause) out.on_timeout = model::Lifecycle::OnTimeout::kPause;
  out.keep_memory = body.boolean("autoPauseMemory").value_or(true);
  if (!out.keep_memory && !auto_pause && !sleeps)
    body.refuse("autoPauseMemory", "has a meaning only together with autoPause or idleTimeout");
  if (auto resume = body.object("autoResume")) spec.auto_resume = resume->boolean("enabled").value_or(false);
  if (spec.auto_resume == true && !out.keep_memory)
    body.refuse("autoResume", "needs a pause that keeps the memory");
}

std::optional<Error> read_later_fields(Fields& body) {
  const json::array* volumes = body.array("volumeMounts");
  auto iam = body.object("iam");
  (void)body.object("mcp");  // its server is started by the client; only the type is checked
  if (volumes && !volumes->empty()) return not_yet("volumeMounts", "copy files in with the file API");
  if (iam && !iam->raw().empty()) return not_yet("iam", "pass what the sandbox needs in envVars");
  return std::nullopt;
}

// Takes one word of the caller; those that name the same thing in several places must agree.
Result<void> take_word(std::string_view where, std::string_view choices,
                       std::optional<model::IsolationWord> word, std::optional<model::IsolationWord>& into) {
  if (!word) return make_error(Code::kInvalid, "{}: must be {}", where, choices).with_word("invalid_field");
  if (into && *into != *word) {
    return make_error(Code::kInvalid, "{}: '{}' contradicts '{}' in the rest of the request", where,
                      word->text(), into->text())
        .with_word("invalid_field");
  }
  into = word;
  return {};
}

// The words of the body's field and of the header of this meaning.
template <class Take>
Result<void> take_both(const Call& call, Fields& body, const char* field, std::string_view header,
                       Take take) {
  if (auto text = body.text(field, 32)) TRY_VOID(take(field, *text));
  if (call.head->headers.count(header) > 1)
    return make_error(Code::kInvalid, "header {}: given more than once", header).with_word("invalid_field");
  if (auto text = call.head->headers.find(header))
    TRY_VOID(take(fmt::format("header {}", header), trim(*text)));
  return {};
}

Result<void> take_tier(std::string_view where, std::string_view name,
                       std::optional<model::IsolationWord>& into) {
  auto tier = model::parse_tier(name);
  return take_word(where, "container, gvisor or microvm",
                   tier ? std::optional(model::IsolationWord(*tier)) : std::nullopt, into);
}

// The tier may also be named behind the template's name.
Result<void> read_tier_of(std::string& reference, std::optional<model::IsolationWord>& into) {
  std::size_t at = reference.rfind('@');
  if (at == std::string::npos) return {};
  TRY_VOID(take_tier("templateID", std::string_view(reference).substr(at + 1), into));
  reference.resize(at);
  if (reference.find('@') == std::string::npos) return {};
  return make_error(Code::kInvalid, "templateID: '@' may stand once, before the isolation")
      .with_word("invalid_field");
}

constexpr char kLabelForm[] = "must be 1 to 64 letters, digits, '-', '_' or '.'";

// "git,npm", for clients that have no field for it; adds to the body's.
Result<void> read_label_header(const Call& call, std::vector<std::string>& labels) {
  constexpr char kHeader[] = "x-atoll-labels";
  auto refused = [&](std::string_view why) {
    return make_error(Code::kInvalid, "header {}: {}", kHeader, why).with_word("invalid_field");
  };
  if (call.head->headers.count(kHeader) > 1) return refused("given more than once");
  auto text = call.head->headers.find(kHeader);
  if (!text) return {};
  for (std::string_view word : split(*text, ',')) {
    std::string label(trim(word));
    if (!model::valid_label(label)) return refused(kLabelForm);
    if (std::find(labels.begin(), labels.end(), label) == labels.end()) labels.push_back(std::move(label));
  }
  if (labels.size() > model::kMaxLabels) return refused(fmt::format("at most {} labels", model::kMaxLabels));
  return {};
}

}  // namespace

Result<void> read_isolation(const Call& call, Fields& body, std::optional<model::IsolationWord>& isolation,
                            std::optional<model::IsolationWord>& risk) {
  TRY_VOID(take_both(
      call, body, "isolation", "x-atoll-isolation",
      [&](std::string_view where, std::string_view name) { return take_tier(where, name, isolation); }));
  return take_both(call, body, "risk", "x-atoll-risk", [&](std::string_view where, std::string_view name) {
    auto parsed = model::parse_risk(name);
    return take_word(where, "low, medium or high",
                     parsed ? std::optional(model::IsolationWord(*parsed)) : std::nullopt, risk);
  });
}

std::optional<std::vector<std::string>> read_labels(Fields& fields) {
  auto labels = fields.texts("labels", model::kMaxLabels);
  for (std::size_t i = 0; labels && i < labels->size(); ++i) {
    auto here = labels->begin() + static_cast<std::ptrdiff_t>(i);
    std::string place = fmt::format("labels[{}]", i);
    if (!model::valid_label(*here)) fields.refuse(place, kLabelForm);
    if (std::find(labels->begin(), here, *here) != here) fields.refuse(place, "stands there twice");
  }
  return labels;
}

Error not_yet(std::string_view what, std::string_view hint) {
  return make_error(Code::kUnsupported, "{}: not implemented yet", what)
      .with_word("not_implemented_yet")
      .with_hint(std::string(hint));
}

Result<void> check_gateway(const control::SandboxService& sandboxes, const model::NetworkRules& rules) {
  if (!rules.needs_gateway() || sandboxes.options().connect_gateway) return {};
  return make_error(
             Code::kUnsupported,
             "network: domain names, header rules, httpsPorts and egressProxy need the gateway, which does "
             "not run")
      .with_word("gateway_off")
      .with_hint("start Atoll with it (atoll up --gateway), or use IPv4 addresses and blocks");
}

std::optional<Millis> read_timeout(Millis max_timeout, Fields& fields, std::int64_t min) {
  auto most = std::chrono::duration_cast<std::chrono::seconds>(max_timeout).count();
  auto seconds = fields.integer("timeout", min, most);
  if (!seconds) return std::nullopt;
  return Millis(*seconds * 1000);
}

std::optional<Millis> read_idle_timeout(Millis max_timeout, Fields& fields) {
  auto most = std::chrono::duration_cast<std::chrono::seconds>(max_timeout).count();
  auto seconds = fields.integer("idleTimeout", 0, most);
  if (!seconds) return std::nullopt;
  return Millis(*seconds * 1000);
}

Result<control::CreateSpec> read_create(Millis max_timeout, const Call& call, Generation generation) {
  Fields body(call.body.get_object());
  control::CreateSpec spec;
  spec.tenant = call.tenant();
  auto reference = body.text("templateID", kMaxTemplateRef);
  if (!reference || reference->empty()) body.refuse("templateID", "is required");
  bool v1 = generation == Generation::kV1;
  spec.timeout = read_timeout(max_timeout, body, 1).value_or(v1 ? Millis(15'000) : Millis(300'000));
  spec.metadata = body.map("metadata", kMaxEntries, kMaxMetadataValue).value_or(model::StringMap());
  spec.envs = body.map("envVars", kMaxEntries, kMaxEnvValue).value_or(model::StringMap());
  for (const auto& [name, value] : spec.envs) {
    if (name == "ATOLL_LABEL") body.refuse("envVars.ATOLL_LABEL", "is for single commands");
    if (name.find('=') != std::string::npos) body.refuse("envVars." + name, "a name must not contain '='");
  }
  bool secure = body.boolean("secure").value_or(!v1);
  spec.secured = secure || !v1 ? control::CreateSpec::Secured::kYes : control::CreateSpec::Secured::kNo;
  read_network(body, spec);
  spec.labels = read_labels(body).value_or(std::vector<std::string>());
  read_lifecycle(max_timeout, body, spec);
  auto later = read_later_fields(body);
  TRY_VOID(body.status());
  TRY_VOID(read_isolation(call, body, spec.isolation, spec.risk));
  TRY_VOID(read_tier_of(*reference, spec.isolation));
  TRY_VOID(read_label_header(call, spec.labels));
  TRY_VOID(body.status());
  if (later) return *later;
  spec.template_ref = std::move(*reference);
  return spec;
}

Result<model::NetworkRules> read_network_update(const Call& call) {
  Fields body(call.body.get_object());
  model::NetworkRules rules;
  if (body.boolean("allow_internet_access") == false) rules.internet = false;
  read_rules(body, rules);
  TRY_VOID(body.status());
  return rules;
}

}  // namespace atl::api
