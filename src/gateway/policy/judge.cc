// SPDX-License-Identifier: Apache-2.0
#include "gateway/policy/judge.h"

#include <algorithm>

#include "gateway/names/address_class.h"

namespace atl::gateway::policy {
namespace {

bool holds(const Cidr& block, const IpAddress& address, bool also_carried) {
  if (block.contains(address)) return true;
  if (!also_carried) return false;
  auto carried = carried_addresses(address);
  return std::any_of(carried.begin(), carried.end(),
                     [&](const IpAddress& inner) { return block.contains(inner); });
}

// One pattern against a name or the address that it leads to.
Match match_host(const HostPattern& pattern, const ConnectionFacts& facts, bool address_counts,
                 bool also_carried) {
  const Host& host = facts.authority.host;
  if (!pattern.is_address()) {
    bool fits = !host.is_address() && pattern.matches_name(host.name());
    return fits ? Match::kYes : Match::kNo;
  }
  if (host.is_address())
    return holds(pattern.block(), host.address(), also_carried) ? Match::kYes : Match::kNo;
  if (!address_counts || facts.resolved_elsewhere) return Match::kNo;
  if (!facts.address) return Match::kMaybe;
  return holds(pattern.block(), *facts.address, also_carried) ? Match::kYes : Match::kNo;
}

Match any_host(const std::vector<HostPattern>& patterns, const ConnectionFacts& facts, bool address_counts,
               bool also_carried) {
  Match best = Match::kNo;
  for (const HostPattern& pattern : patterns) {
    best = std::max(best, match_host(pattern, facts, address_counts, also_carried));
    if (best == Match::kYes) break;
  }
  return best;
}

// Blocks judge the addresses that names lead to where the rule restricts, or says so.
Match match_hosts(const Rule& rule, const ConnectionFacts& facts) {
  bool strict = restricts(rule) && rule.action != Action::kAsk;
  Match named = any_host(rule.hosts, facts, strict || rule.via_name, strict);
  if (named == Match::kNo || rule.except.empty()) return named;
  Match excepted = any_host(rule.except, facts, true, false);
  if (excepted == Match::kYes) return Match::kNo;
  return excepted == Match::kMaybe ? Match::kMaybe : named;
}

Match match_path(const Rule& rule, RequestView& request) {
  if (rule.paths.empty()) return Match::kYes;
  const RequestPath& path = request.path();
  if (!path.clear() && !rule.as_spelled) return Match::kMaybe;
  bool fits = std::any_of(rule.paths.begin(), rule.paths.end(), [&](const PathPattern& pattern) {
    return path.clear() ? pattern.matches(path) : pattern.matches_as_spelled(path.raw);
  });
  return fits ? Match::kYes : Match::kNo;
}

Match match_condition(const Rule& rule, RequestView& request) {
  if (!rule.when) return Match::kYes;
  bool spelled = rule.as_spelled && rule.when->reads_path() && !request.path().clear();
  switch (rule.when->evaluate(request, spelled)) {
    case Truth::kTrue: return Match::kYes;
    case Truth::kFalse: return Match::kNo;
    case Truth::kUnknown: return Match::kMaybe;
  }
  return Match::kMaybe;
}

// A rule that lets through bodies up to a bound does not let through a larger one. One that adjusts sets the
// bound.
bool fits_body(const Rule& rule, const RequestFacts& facts) {
  if (!rule.max_body_bytes || !facts.body_bytes || rule.action != Action::kAllow) return true;
  return *facts.body_bytes <= *rule.max_body_bytes;
}

}  // namespace

bool fits_stream(const Rule& rule, Stream stream) {
  switch (rule.protocol) {
    case Protocol::kAny: return true;
    case Protocol::kHttp:
      return stream != Stream::kOther || rule.action == Action::kDeny || rule.action == Action::kAsk;
    case Protocol::kTls: return stream == Stream::kTls;
    case Protocol::kWeb: return stream != Stream::kOther;
  }
  return false;
}

std::string_view miss_name(Miss miss) {
  switch (miss) {
    case Miss::kLabel: return "label";
    case Miss::kHost: return "host";
    case Miss::kPort: return "port";
    case Miss::kProtocol: return "protocol";
    case Miss::kMethod: return "method";
    case Miss::kPath: return "path";
    case Miss::kBody: return "size of body";
    case Miss::kCondition: return "condition";
    case Miss::kNone: return "";
  }
  return "unknown";
}

bool restricts(const Rule& rule) {
  switch (rule.action) {
    case Action::kDeny:
    case Action::kAsk: return true;
    case Action::kAllow: return false;
    case Action::kAdjust: return !rule.changes_requests();
  }
  return true;
}

bool sees(const Rule& rule, std::string_view label, bool own) {
  if (!rule.labels.empty())
    return std::find(rule.labels.begin(), rule.labels.end(), label) != rule.labels.end();
  return label.empty() || !own || (restricts(rule) && rule.action != Action::kAsk);
}

bool has_port(const Rule& rule, std::uint16_t port) {
  if (rule.ports.empty()) return true;
  return std::any_of(rule.ports.begin(), rule.ports.end(),
                     [port](const PortRange& range) { return port >= range.first && port <= range.last; });
}

Finding reach(const Rule& rule, const ConnectionFacts& facts, bool own) {
  if (!sees(rule, facts.who.label, own)) return {Match::kNo, Miss::kLabel};
  Match host = match_hosts(rule, facts);
  if (host == Match::kNo) return {Match::kNo, Miss::kHost};
  if (!has_port(rule, facts.authority.port)) return {Match::kNo, Miss::kPort};
  if (!fits_stream(rule, facts.stream)) return {Match::kNo, Miss::kProtocol};
  return {host, host == Match::kMaybe ? Miss::kHost : Miss::kNone};
}

Finding match_request(const Rule& rule, RequestView& request) {
  const RequestFacts& facts = request.facts();
  if (!rule.methods.empty() &&
      std::find(rule.methods.begin(), rule.methods.end(), facts.method) == rule.methods.end())
    return {Match::kNo, Miss::kMethod};
  Match path = match_path(rule, request);
  if (path == Match::kNo) return {path, Miss::kPath};
  if (!fits_body(rule, facts)) return {Match::kNo, Miss::kBody};
  Match condition = match_condition(rule, request);
  if (condition != Match::kYes && condition <= path) return {condition, Miss::kCondition};
  return {path, path == Match::kMaybe ? Miss::kPath : Miss::kNone};
}

Finding match(const Rule& rule, RequestView& request, bool own) {
  Finding reached = reach(rule, request.facts().at, own);
  if (reached.match == Match::kNo) return reached;
  Finding judged = match_request(rule, request);
  return judged.match == Match::kYes ? reached : judged;
}

}  // namespace atl::gateway::policy
