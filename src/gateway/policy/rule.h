// SPDX-License-Identifier: Apache-2.0
//
// Rules as their author wrote them, read and checked, before they are united into a policy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/names/host_pattern.h"
#include "gateway/policy/expression.h"
#include "gateway/policy/path.h"

namespace atl::gateway::policy {

inline constexpr std::size_t kMaxRules = 256;  // of one set
inline constexpr std::size_t kMaxHosts = 256;  // of one rule
inline constexpr std::size_t kMaxItems = 64;   // of every other list in a rule
inline constexpr std::size_t kMaxRuleSetBytes = 256 * 1024;
inline constexpr std::size_t kMaxSetHeaders = 20;
inline constexpr std::size_t kMaxHeaderName = 64;
inline constexpr std::size_t kMaxHeaderValue = 2048;
inline constexpr std::size_t kMaxReason = 256;
inline constexpr std::size_t kMaxName = 64;  // of a rule, a label, a credential

// What a rule does with what it matches. An `adjust` rule neither allows nor denies: it says how that is sent
// which other rules, or the default, let through.
enum class Action : std::uint8_t { kDeny, kAllow, kAsk, kAdjust };
std::string_view action_name(Action action);  // "deny"

// kAny: whatever is spoken. kHttp: requests, in clear or out of an opened TLS connection. kTls: TLS
// connections and what comes out of them. kWeb: both, without a need to see requests.
enum class Protocol : std::uint8_t { kAny, kHttp, kTls, kWeb };

// Both ends belong to it.
struct PortRange {
  std::uint16_t first = 1;
  std::uint16_t last = 65535;
  bool operator==(const PortRange&) const = default;
};

// `count` requests at once, and as many again in each `seconds`.
struct Rate {
  std::uint32_t count = 0;
  std::uint32_t seconds = 0;
  bool operator==(const Rate&) const = default;
};

inline constexpr std::int64_t kMaxHoldSeconds = 540;  // clients of models give up after 600
inline constexpr std::int64_t kMaxExpireSeconds = 24 * 60 * 60;

// How long a request waits for a person, and how long the question, and then the answer, is good.
struct AskTerms {
  std::uint32_t hold_seconds = 55;
  std::uint32_t expire_seconds = 60 * 60;
  bool operator==(const AskTerms&) const = default;
};

// A field that replaces all of its name. The value may hold placeholders like ${e2b.secrets.NAME}, which the
// vault fills in; here they are text.
struct HeaderSet {
  std::string name;  // lower case
  std::string value;
  bool operator==(const HeaderSet&) const = default;
};

// What is absent restricts nothing.
struct Rule {
  std::string id;  // unique in its set
  Action action = Action::kDeny;
  std::vector<HostPattern> hosts;   // never empty
  std::vector<HostPattern> except;  // hosts that it is not about
  std::vector<PortRange> ports;
  Protocol protocol = Protocol::kAny;
  std::vector<std::string> methods;  // upper case
  std::vector<PathPattern> paths;
  bool as_spelled = false;  // also judges paths that are in doubt, by their bytes
  bool via_name = false;    // its blocks also let through names that resolve into them
  std::optional<std::uint64_t> max_body_bytes;
  std::optional<Rate> rate;
  std::vector<std::string> labels;
  std::shared_ptr<const Expression> when;
  std::string credential;  // name of a binding of the vault
  std::vector<HeaderSet> set_headers;
  std::string reason;  // told to the program that is refused
  AskTerms terms;      // of an ask rule

  // It changes what is sent, so the request must be seen.
  bool changes_requests() const { return !credential.empty() || !set_headers.empty(); }
  // Whether it matches can only be known with a request.
  bool judges_requests() const { return protocol == Protocol::kHttp || judges_each_request(); }
  bool judges_each_request() const {
    return !methods.empty() || !paths.empty() || when || max_body_bytes || rate;
  }
};

// Who wrote a set of rules. Only an operator's and a tenant's can open private addresses.
enum class Source : std::uint8_t { kOperator, kTenant, kTemplate, kSandbox };
inline constexpr std::size_t kSources = 4;
std::string_view source_name(Source source);  // "tenant"

// The rules of one author.
struct RuleSet {
  Source source = Source::kSandbox;
  bool shadow = false;              // evaluated and told about, not enforced
  std::optional<Action> otherwise;  // kAllow or kDeny: what the author wants for what no rule names
  std::vector<Rule> rules;
};

// Reads {"version": 1, "default": "deny", "shadow": false, "rules": [...]}, described in
// docs/guides/policy.md. Strict: an unknown key, a wrong type or a value out of its bounds is kInvalid, and
// the message names the place ("rules[3].ports[0]").
Result<RuleSet> parse_rule_set(std::string_view json, Source source);

// The same from a value that was parsed already, without duplicate keys.
Result<RuleSet> read_rule_set(const boost::json::object& object, Source source);

// Checks a field that a rule sets: a token of at most kMaxHeaderName bytes that frames nothing, a value
// without control characters. Also for rules that were not written as JSON.
Result<HeaderSet> make_header_set(std::string_view name, std::string_view value);

}  // namespace atl::gateway::policy
