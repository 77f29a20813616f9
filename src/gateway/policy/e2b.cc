// SPDX-License-Identifier: Apache-2.0
#include "gateway/policy/e2b.h"

#include <algorithm>

namespace atl::gateway::policy {
namespace {

constexpr std::string_view kEverything = "0.0.0.0/0";

Error wrong(std::string_view field, std::string_view why) {
  return make_error(Code::kInvalid, "network.{}: {}", field, why).with_word("invalid_field");
}

Result<std::vector<HostPattern>> read_patterns(const std::vector<std::string>& texts,
                                               std::string_view field) {
  if (texts.size() > kMaxE2bEntries) return wrong(field, fmt::format("at most {} entries", kMaxE2bEntries));
  std::vector<HostPattern> out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    auto pattern = parse_host_pattern(texts[i], HostBits::kDrop);
    if (!pattern.ok()) return wrong(fmt::format("{}[{}]", field, i), pattern.error().message());
    out.push_back(*std::move(pattern));
  }
  return out;
}

bool is_everything(const HostPattern& pattern) {
  return pattern.is_address() && pattern.text() == kEverything;
}

// All IPv4 means all there is.
void widen(std::vector<HostPattern>& blocks) {
  if (std::any_of(blocks.begin(), blocks.end(), is_everything))
    blocks.push_back(parse_host_pattern("::/0").value());
}

std::size_t count_placeholders(std::string_view value) {
  std::size_t count = 0;
  for (auto at = value.find("${"); at != std::string_view::npos; at = value.find("${", at + 2)) ++count;
  return count;
}

Result<void> add_transforms(const E2bNetwork& network, RuleSet& out) {
  if (network.rules.size() > kMaxE2bHosts)
    return wrong("rules", fmt::format("at most {} hosts", kMaxE2bHosts));
  std::size_t placeholders = 0;
  for (const auto& [host, headers] : network.rules) {
    std::string field = "rules." + host;
    auto pattern = parse_host_pattern(host);
    if (!pattern.ok()) return wrong(field, pattern.error().message());
    if (headers.size() > kMaxSetHeaders)
      return wrong(field, fmt::format("at most {} headers", kMaxSetHeaders));
    Rule rule{.id = fmt::format("rules-{}", out.rules.size() + 1), .action = Action::kAdjust};
    rule.hosts = {*std::move(pattern)};
    rule.protocol = Protocol::kHttp;
    for (const auto& [name, value] : headers) {
      auto field_set = make_header_set(name, value);
      if (!field_set.ok())
        return wrong(fmt::format("{}.transform.headers.{}", field, name), field_set.error().message());
      placeholders += count_placeholders(value);
      rule.set_headers.push_back(*std::move(field_set));
    }
    if (!rule.set_headers.empty()) out.rules.push_back(std::move(rule));
  }
  if (placeholders > kMaxE2bPlaceholders)
    return wrong("rules", fmt::format("at most {} placeholders", kMaxE2bPlaceholders));
  return {};
}

void add_allows(std::vector<HostPattern> names, std::vector<HostPattern> blocks, const E2bNetwork& network,
                RuleSet& out) {
  if (!blocks.empty()) {
    Rule rule{.id = "allowOut", .action = Action::kAllow, .hosts = std::move(blocks), .via_name = true};
    out.rules.push_back(std::move(rule));
  }
  if (names.empty()) return;
  Rule rule{.id = "allowOut-names", .action = Action::kAllow, .hosts = std::move(names)};
  // As in E2B it is about what names its host in its first bytes.
  rule.protocol = Protocol::kWeb;
  rule.ports = {{80, 80}, {443, 443}};
  for (std::uint16_t port : network.https_ports) rule.ports.push_back({port, port});
  out.rules.push_back(std::move(rule));
}

}  // namespace

Result<RuleSet> rules_from_e2b(const E2bNetwork& network) {
  TRY(auto allow, read_patterns(network.allow_out, "allowOut"));
  TRY(auto deny, read_patterns(network.deny_out, "denyOut"));
  if (network.https_ports.size() > kMaxItems) return wrong("httpsPorts", "at most 64 entries");
  for (std::size_t i = 0; i < deny.size(); ++i) {
    if (!deny[i].is_address()) return wrong(fmt::format("denyOut[{}]", i), "must be an address or a block");
  }
  bool closed = !network.allow_internet_access || std::any_of(deny.begin(), deny.end(), is_everything);
  std::vector<HostPattern> names, blocks;
  for (HostPattern& pattern : allow) (pattern.is_address() ? blocks : names).push_back(std::move(pattern));
  if (!names.empty() && !closed)
    return wrong("allowOut",
                 "a domain needs \"0.0.0.0/0\" in denyOut; otherwise everything is allowed anyway");
  RuleSet out{.source = Source::kSandbox};
  out.otherwise = closed ? Action::kDeny : Action::kAllow;
  widen(blocks);
  if (!closed && !deny.empty()) {
    Rule rule{.id = "denyOut", .action = Action::kDeny, .hosts = std::move(deny), .except = blocks};
    out.rules.push_back(std::move(rule));
  }
  add_allows(std::move(names), std::move(blocks), network, out);
  TRY_VOID(add_transforms(network, out));
  return out;
}

}  // namespace atl::gateway::policy
