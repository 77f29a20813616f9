// SPDX-License-Identifier: Apache-2.0
//
// Policy: the rules of operator, tenant, template and sandbox, and the questions that the gateway asks it.
// Pure: the same facts always get the same answer. Immutable, so one may be shared by all connections of all
// sandboxes that it holds for.
//
// Each author's set decides by itself: deny, then allow, then ask, then its default. The strictest of them
// counts, so that nobody can widen what another one leaves closed. A set without a default that says nothing
// about a request leaves it to the others; when all do, it is denied. A deny, ask or limiting rule of which
// nobody can tell whether it matches counts as matching, an allow rule does not. Addresses that are not
// public are refused in any case, unless a rule of the operator or the tenant names a block of private ones.
// A connection of a labelled process needs a rule with that label that lets it through; in sets that have
// such rules, what they let through for everybody does not count for it.
#pragma once

#include <array>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/policy/facts.h"
#include "gateway/policy/rule.h"

namespace atl::gateway::policy {

// Names of what refuses without a rule.
inline constexpr std::string_view kDefaultRule = "default";
inline constexpr std::string_view kAddressRule = "special-address";

// What the program inside is told.
struct Refusal {
  std::string rule;    // "sandbox/no-uploads", or kDefaultRule, or kAddressRule
  std::string reason;  // a sentence
  std::string hint;    // what can be done about it
};

// What would have been decided if rule sets in shadow mode were in force, when that is something else.
struct ShadowDifference {
  std::string verdict;  // "allow", "ask", "deny"
  std::string rule;
};

// How a connection goes on.
struct ConnectionDecision {
  enum class Way : std::uint8_t {
    kPass,     // bytes go through as they are
    kInspect,  // requests are judged one by one; TLS is opened
    kDeny,
  };
  Way way = Way::kDeny;
  std::string rule;  // that let it through; kDefaultRule when none
  Refusal refusal;   // when kDeny
  std::optional<ShadowDifference> shadow;
};

// A bound that the caller keeps count of: per sandbox and rule.
struct RateBound {
  std::string rule;
  Rate rate;
};

// The ask rule that counts, and the shortest of the times of all that do.
struct AskedBy {
  std::string rule;
  AskTerms terms;
};

// How a request goes on, and how it is sent. When `verdict` is kAsk, everything but `refusal` is what holds
// once a person has said yes.
struct RequestDecision {
  enum class Verdict : std::uint8_t { kAllow, kAsk, kDeny };
  Verdict verdict = Verdict::kDeny;
  std::vector<std::string> rules;  // that matched and count; the first one decided; empty for the default
  std::vector<std::string> credentials;  // to put in, each once
  std::vector<HeaderSet> set_headers;    // each name once: the operator's word first, the sandbox's last
  std::optional<std::uint64_t>
      max_body_bytes;     // the smallest one; a body of unknown length must be cut there
  std::string body_rule;  // which says so
  std::vector<RateBound> rates;
  std::optional<AskedBy> asked;  // when kAsk
  bool provisional = false;      // it is let through for the address that its name has, once that is known
  Refusal refusal;               // when kDeny
  std::optional<ShadowDifference> shadow;
};

// What one rule said about one request, for people.
struct Explained {
  std::string rule;
  Action action = Action::kDeny;
  bool shadow = false;
  bool matched = false;
  std::string
      why_not;  // "method", "host", ...; with a colon and more where that helps; empty when it matched
};
// What explain() tells.
struct Explanation {
  RequestDecision decision;
  std::vector<Explained> rules;  // in the order in which they are looked at
};

// See above.
class Policy {
 public:
  // kInvalid when two sets have the same source and mode. Later sets of the same source cannot weaken earlier
  // ones.
  static Result<std::shared_ptr<const Policy>> compile(std::vector<RuleSet> sets);

  // Whether DNS answers this name at all: some connection to it could be let through.
  bool may_resolve(std::string_view canonical_name, std::string_view label) const;

  // Asked when a connection was made, and once more with each address that is about to be dialled for it:
  // only an answer with the address is final. What passes without the address may still be denied with it.
  ConnectionDecision connection(const ConnectionFacts& facts) const;

  // Asked for every request of an inspected connection. May be asked before the name is resolved: what it
  // lets through then holds if connection() lets the address through. Where that would not be the same, a
  // rule about addresses does not let through, and one that denies requests does; with the address the answer
  // is exact.
  RequestDecision request(const RequestFacts& facts) const;

  // True when some rule about this connection looks into bodies: then the caller gives request() bodies of up
  // to kMaxJudgedBody.
  bool reads_body(const ConnectionFacts& facts) const;

  // The whole of request(), rule by rule. Slow.
  Explanation explain(const RequestFacts& facts) const;

  // True when some connection may have to be opened to judge or change what is in it.
  bool may_inspect() const;

  // Things that its author probably did not mean, as sentences.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Entry {
    Rule rule;
    Source source;
    bool shadow;
    std::string id;  // "tenant/3"
  };
  // What an author says beside rules.
  struct Author {
    std::optional<Action> otherwise;            // kAllow or kDeny
    std::set<std::string, std::less<>> labels;  // for which it lets something through by name
  };
  using Authors = std::array<Author, kSources>;
  struct Judge;
  struct Tally;
  enum class Mode : bool { kEnforced, kWithShadow };

  Policy() = default;
  const Authors& authors(Mode mode) const { return mode == Mode::kEnforced ? authors_ : with_shadow_; }
  ConnectionDecision decide(const ConnectionFacts& facts, Mode mode) const;
  RequestDecision decide(RequestView& view, Mode mode) const;
  void add(Rule rule, Source source, bool shadow, const std::string& prefix);
  static void hear(const RuleSet& set, Authors& authors);
  void sort_by_action();
  void note_mistakes(const RuleSet& set);

  std::vector<Entry> entries_;  // deny, allow, ask, adjust; in each of them in the order of Source
  std::vector<std::string> notes_;
  Authors authors_, with_shadow_;
  bool has_shadow_ = false;
};

}  // namespace atl::gateway::policy
