// SPDX-License-Identifier: Apache-2.0
#include "gateway/policy/policy.h"

#include <algorithm>

#include "gateway/names/address_class.h"
#include "gateway/policy/judge.h"

namespace atl::gateway::policy {
namespace {

std::optional<IpAddress> address_of(const ConnectionFacts& facts) {
  if (facts.authority.host.is_address()) return facts.authority.host.address();
  return facts.address;
}

std::string what_of(const RequestFacts& facts) {
  return fmt::format("{} {}", facts.method, facts.at.authority.text());
}

Refusal refused_by(const Rule& rule, const std::string& id, const std::string& what) {
  return {id, rule.reason.empty() ? fmt::format("rule {} denies {}", id, what) : rule.reason,
          fmt::format("only a change of rule {} can let it through", id)};
}

}  // namespace

// What the questions have in common.
struct Policy::Judge {
  const Policy& policy;
  Mode mode;

  bool in_force(const Entry& entry) const { return mode == Mode::kWithShadow || !entry.shadow; }
  const Author& author(Source source) const { return policy.authors(mode)[static_cast<std::size_t>(source)]; }
  // Whether the author of the rule lets something through for the label by name.
  bool own(const Entry& entry, std::string_view label) const {
    return !label.empty() && author(entry.source).labels.contains(label);
  }
  Finding reach(const Entry& entry, const ConnectionFacts& facts) const {
    return policy::reach(entry.rule, facts, own(entry, facts.who.label));
  }
  Finding match(const Entry& entry, RequestView& view) const {
    return policy::match(entry.rule, view, own(entry, view.facts().at.who.label));
  }

  // A rule of the operator or the tenant that names a block of private addresses opens what is in it, for the
  // requests that it matches.
  bool opens(const Entry& entry, const ConnectionFacts& facts, const IpAddress& address,
             RequestView* request) const {
    const Rule& rule = entry.rule;
    bool may = entry.source == Source::kOperator || entry.source == Source::kTenant;
    if (!in_force(entry) || !may || rule.action != Action::kAllow) return false;
    std::string_view label = facts.who.label;
    if (!sees(rule, label, own(entry, label)) || !has_port(rule, facts.authority.port)) return false;
    if (!fits_stream(rule, facts.stream)) return false;
    // A name is asked for before its address is known, and what speaks no HTTP is never looked at: nobody
    // would hold these to what the rule says of requests.
    bool unseen = !request && (!facts.authority.host.is_address() || facts.stream == Stream::kOther);
    if (unseen && rule.judges_each_request()) return false;
    auto in = [&address](const HostPattern& host) { return host.matches_address(address); };
    if (std::any_of(rule.except.begin(), rule.except.end(), in)) return false;
    if (request && match_request(rule, *request).match != Match::kYes) return false;
    return std::any_of(rule.hosts.begin(), rule.hosts.end(), [&](const HostPattern& host) {
      return host.is_address() && names_openable(host.block()) && in(host);
    });
  }

  std::optional<Refusal> special(const ConnectionFacts& facts, RequestView* request) const {
    auto address = address_of(facts);
    if (!address) return std::nullopt;
    auto kind = classify(*address);
    if (kind == AddressClass::kPublic) return std::nullopt;
    bool opened = may_be_opened(kind) &&
                  std::any_of(policy.entries_.begin(), policy.entries_.end(),
                              [&](const Entry& entry) { return opens(entry, facts, *address, request); });
    if (opened) return std::nullopt;
    return Refusal{std::string(kAddressRule),
                   fmt::format("{} leads to {}, a {} address", facts.authority.text(), address->text(),
                               address_class_name(kind)),
                   may_be_opened(kind)
                       ? "only a rule of the tenant or the operator that names its block can open it"
                       : "such addresses cannot be reached from a sandbox"};
  }

  // True when connection() with the address lets through exactly what the rules let through: nothing that
  // reaches the connection looks at requests, or asks, and could make it pass for another reason.
  bool dial_decides(const ConnectionFacts& facts) const {
    return std::none_of(policy.entries_.begin(), policy.entries_.end(), [&](const Entry& entry) {
      const Rule& rule = entry.rule;
      bool asks = rule.action == Action::kAsk;
      bool looks = rule.action == Action::kAllow && (rule.judges_requests() || rule.changes_requests());
      return in_force(entry) && (asks || looks) && reach(entry, facts).match != Match::kNo;
    });
  }
};

// What each author says about one connection or request, put together.
struct Policy::Tally {
  struct Word {
    const Entry *allow = nullptr, *ask = nullptr, *near = nullptr;
    Miss nearest = Miss::kHost;
  };
  const Judge& judge;
  std::string_view label;
  std::array<Word, kSources> words{};
  std::optional<Source> closed{};  // who leaves it closed, when somebody does

  Word& of(const Entry& entry) { return words[static_cast<std::size_t>(entry.source)]; }
  // An allow rule that did not count.
  void missed(const Entry& entry, Miss miss) {
    Word& word = of(entry);
    if (entry.rule.action == Action::kAllow && miss > word.nearest) word.near = &entry, word.nearest = miss;
  }
  // The strictest word. An author that has nothing to say about it leaves it to the others. For a labelled
  // process one must speak who knows its label, and to those its default is closed.
  RequestDecision::Verdict verdict() {
    using Verdict = RequestDecision::Verdict;
    bool spoken = false, asked = false;
    for (std::size_t i = 0; i < kSources; ++i) {
      const Author& author = judge.author(static_cast<Source>(i));
      bool knows = label.empty() || author.labels.contains(label);
      const Word& word = words[i];
      if (word.allow || word.ask) {
        spoken |= knows;
        asked |= !word.allow;
      } else if (author.otherwise == Action::kDeny || (knows && !label.empty())) {
        closed = static_cast<Source>(i);
        return Verdict::kDeny;
      } else {
        spoken |= author.otherwise == Action::kAllow && label.empty();
      }
    }
    if (!spoken) return Verdict::kDeny;
    return asked ? Verdict::kAsk : Verdict::kAllow;
  }
  // The first that lets it through, when somebody does by a rule.
  const Entry* by() const {
    for (const Word& word : words) {
      if (word.allow) return word.allow;
    }
    for (const Word& word : words) {
      if (word.ask) return word.ask;
    }
    return nullptr;
  }
  // Why verdict() was kDeny.
  Refusal refusal(const std::string& what) const {
    const Word* best = closed ? &words[static_cast<std::size_t>(*closed)] : nullptr;
    for (const Word& word : words) {
      if (!closed && word.near && (!best || word.nearest > best->nearest)) best = &word;
    }
    std::string hint = closed ? fmt::format("ask for a rule of the {} that allows it", source_name(*closed))
                              : std::string("ask for a rule that allows it");
    if (best && best->near)
      hint =
          fmt::format("rule {} allows this host, but not this {}", best->near->id, miss_name(best->nearest));
    std::string who = label.empty() ? std::string() : fmt::format(" for the label '{}'", label);
    return {std::string(kDefaultRule), fmt::format("no rule allows {}{}", what, who), std::move(hint)};
  }
};

Result<std::shared_ptr<const Policy>> Policy::compile(std::vector<RuleSet> sets) {
  std::shared_ptr<Policy> out(new Policy());
  std::sort(sets.begin(), sets.end(), [](const RuleSet& a, const RuleSet& b) {
    return std::pair(a.source, a.shadow) < std::pair(b.source, b.shadow);
  });
  for (std::size_t i = 0; i < sets.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (sets[j].source == sets[i].source && sets[j].shadow == sets[i].shadow)
        return make_error(Code::kInvalid, "there are two sets of rules of the {}",
                          source_name(sets[i].source));
    }
    out->note_mistakes(sets[i]);
    out->has_shadow_ |= sets[i].shadow;
    if (!sets[i].shadow) hear(sets[i], out->authors_);
    hear(sets[i], out->with_shadow_);
    std::string prefix = fmt::format("{}{}/", sets[i].shadow ? "shadow-" : "", source_name(sets[i].source));
    for (Rule& rule : sets[i].rules) out->add(std::move(rule), sets[i].source, sets[i].shadow, prefix);
  }
  out->sort_by_action();
  return std::shared_ptr<const Policy>(std::move(out));
}

// Of two sets of one author, a trial being one, the stricter default holds.
void Policy::hear(const RuleSet& set, Authors& authors) {
  Author& author = authors[static_cast<std::size_t>(set.source)];
  if (set.otherwise && author.otherwise != Action::kDeny) author.otherwise = set.otherwise;
  for (const Rule& rule : set.rules) {
    if (rule.action != Action::kAllow && rule.action != Action::kAsk) continue;
    author.labels.insert(rule.labels.begin(), rule.labels.end());
  }
}

void Policy::add(Rule rule, Source source, bool shadow, const std::string& prefix) {
  std::string id = prefix + rule.id;
  entries_.push_back({std::move(rule), source, shadow, std::move(id)});
}

// Within one action the order stays.
void Policy::sort_by_action() {
  std::vector<Entry> sorted;
  for (Action action : {Action::kDeny, Action::kAllow, Action::kAsk, Action::kAdjust}) {
    for (Entry& entry : entries_) {
      if (entry.rule.action == action) sorted.push_back(std::move(entry));
    }
  }
  entries_ = std::move(sorted);
}

void Policy::note_mistakes(const RuleSet& set) {
  bool allows = std::any_of(set.rules.begin(), set.rules.end(),
                            [](const Rule& r) { return r.action == Action::kAllow; });
  for (const Rule& rule : set.rules) {
    for (const HostPattern& host : rule.hosts) {
      if (rule.action == Action::kDeny && host.any_name() && allows && !rule.judges_requests() &&
          rule.ports.empty())
        notes_.push_back(
            fmt::format("rule {}/{} denies all names, and a deny goes before every allow; for \"only these\" "
                        "write \"default\": \"deny\"",
                        source_name(set.source), rule.id));
      if (rule.action == Action::kAllow && host.is_address() && names_openable(host.block()) &&
          set.source != Source::kTenant && set.source != Source::kOperator)
        notes_.push_back(fmt::format(
            "rule {}/{} names the private block {}, which only a rule of the tenant or the operator opens",
            source_name(set.source), rule.id, host.text()));
    }
  }
}

bool Policy::may_resolve(std::string_view canonical_name, std::string_view label) const {
  Judge judge{*this, Mode::kEnforced};
  auto named = [&](const std::vector<HostPattern>& hosts) {
    return std::any_of(hosts.begin(), hosts.end(),
                       [&](const HostPattern& host) { return host.matches_name(canonical_name); });
  };
  Tally tally{judge, label};
  for (const Entry& entry : entries_) {
    const Rule& rule = entry.rule;
    if (!judge.in_force(entry) || !sees(rule, label, judge.own(entry, label))) continue;
    bool about = named(rule.hosts) && !named(rule.except);
    if (rule.action == Action::kDeny) {
      bool always = !rule.judges_requests() && rule.ports.empty() && rule.protocol == Protocol::kAny &&
                    std::none_of(rule.except.begin(), rule.except.end(),
                                 [](const HostPattern& h) { return h.is_address(); });
      if (about && always) return false;
    } else if (rule.action != Action::kAdjust && (about || (rule.via_name && !named(rule.except)))) {
      tally.of(entry).allow = &entry;
    }
  }
  return tally.verdict() != RequestDecision::Verdict::kDeny;
}

ConnectionDecision Policy::connection(const ConnectionFacts& facts) const {
  ConnectionDecision out = decide(facts, Mode::kEnforced);
  if (!has_shadow_) return out;
  ConnectionDecision other = decide(facts, Mode::kWithShadow);
  using Way = ConnectionDecision::Way;
  if (other.way != out.way && (other.way == Way::kDeny || out.way == Way::kDeny)) {
    bool denied = other.way == Way::kDeny;
    out.shadow = ShadowDifference{denied ? "deny" : "allow", denied ? other.refusal.rule : other.rule};
  }
  return out;
}

ConnectionDecision Policy::decide(const ConnectionFacts& facts, Mode mode) const {
  using Way = ConnectionDecision::Way;
  Judge judge{*this, mode};
  if (auto refusal = judge.special(facts, nullptr)) return {Way::kDeny, {}, *std::move(refusal), {}};
  // Allowed: lets every byte through. Asked: may let requests through, or the address once it is known.
  // blind: nobody can obey this rule without seeing requests.
  Tally tally{judge, facts.who.label};
  const Entry* blind = nullptr;
  bool inspect = false;
  for (const Entry& entry : entries_) {
    if (!judge.in_force(entry)) continue;
    const Rule& rule = entry.rule;
    Finding found = judge.reach(entry, facts);
    if (found.match == Match::kNo) {
      tally.missed(entry, found.miss);
      continue;
    }
    bool looks = rule.judges_requests() || rule.changes_requests() || rule.action == Action::kAsk;
    inspect |= looks;
    if (rule.action == Action::kDeny && !looks) {
      if (found.match != Match::kYes) continue;
      return {Way::kDeny, {}, refused_by(rule, entry.id, facts.authority.text()), {}};
    }
    // Nobody can be asked about what is not seen, whatever else the rule does.
    bool blinds = rule.action == Action::kDeny || rule.action == Action::kAsk ||
                  rule.changes_requests() == (rule.action == Action::kAllow);
    if (blinds && !blind) blind = &entry;
    if (rule.action != Action::kAllow && rule.action != Action::kAsk) continue;
    Tally::Word& word = tally.of(entry);
    bool certain = rule.action == Action::kAllow && !looks && found.match == Match::kYes;
    bool useless = facts.stream == Stream::kOther && rule.judges_requests();
    const Entry*& place = certain ? word.allow : word.ask;
    if (!place && (certain || !useless)) place = &entry;
  }
  if (facts.stream == Stream::kOther && blind) {
    return {Way::kDeny,
            {},
            {blind->id,
             fmt::format("rule {} {} requests to {}, and this connection speaks neither HTTP nor TLS",
                         blind->id, blind->rule.action == Action::kAsk ? "asks a person about" : "is about",
                         facts.authority.text()),
             "speak HTTP or TLS there, or have the rule say other ports"},
            {}};
  }
  if (tally.verdict() == RequestDecision::Verdict::kDeny)
    return {Way::kDeny, {}, tally.refusal(facts.authority.text()), {}};
  const Entry* by = tally.by();
  bool look = facts.stream == Stream::kHttp || (facts.stream == Stream::kTls && inspect);
  return {look ? Way::kInspect : Way::kPass, by ? by->id : std::string(kDefaultRule), {}, {}};
}

RequestDecision Policy::request(const RequestFacts& facts) const {
  RequestView view(facts);
  RequestDecision out = decide(view, Mode::kEnforced);
  if (!has_shadow_) return out;
  RequestDecision other = decide(view, Mode::kWithShadow);
  using Verdict = RequestDecision::Verdict;
  if (other.verdict != out.verdict) {
    std::string name = other.verdict == Verdict::kDeny  ? "deny"
                       : other.verdict == Verdict::kAsk ? "ask"
                                                        : "allow";
    std::string rule = other.verdict == Verdict::kDeny ? other.refusal.rule
                       : other.rules.empty()           ? std::string(kDefaultRule)
                                                       : other.rules.front();
    out.shadow = ShadowDifference{std::move(name), std::move(rule)};
  }
  return out;
}

namespace {

// Of each author, the headers that its rules set.
using WantedHeaders = std::array<std::vector<HeaderSet>, kSources>;

// Each name once; the operator's word first, the sandbox's last.
std::vector<HeaderSet> settled(const WantedHeaders& wanted) {
  std::vector<HeaderSet> out;
  for (const std::vector<HeaderSet>& fields : wanted) {
    for (const HeaderSet& field : fields) {
      bool there = std::any_of(out.begin(), out.end(),
                               [&](const HeaderSet& other) { return other.name == field.name; });
      if (!there) out.push_back(field);
    }
  }
  return out;
}

// What a rule that counts adds to how the request is sent.
void apply(const Rule& rule, const std::string& id, RequestDecision& out) {
  out.rules.push_back(id);
  if (!rule.credential.empty() &&
      std::find(out.credentials.begin(), out.credentials.end(), rule.credential) == out.credentials.end())
    out.credentials.push_back(rule.credential);
  if (rule.max_body_bytes && *rule.max_body_bytes < out.max_body_bytes.value_or(UINT64_MAX)) {
    out.max_body_bytes = rule.max_body_bytes;
    out.body_rule = id;
  }
  if (rule.rate) out.rates.push_back({id, *rule.rate});
}

void add_question(const Rule& rule, const std::string& id, RequestDecision& out) {
  if (!out.asked) {
    out.asked = AskedBy{id, rule.terms};
    return;
  }
  AskTerms& terms = out.asked->terms;
  terms.hold_seconds = std::min(terms.hold_seconds, rule.terms.hold_seconds);
  terms.expire_seconds = std::min(terms.expire_seconds, rule.terms.expire_seconds);
}

// Everything fits, but whether the name leads to an address of the rule.
bool only_address_open(const Finding& found) {
  return found.match == Match::kMaybe && found.miss == Miss::kHost;
}

RequestDecision denied(Refusal refusal) {
  RequestDecision out;
  out.refusal = std::move(refusal);
  return out;
}

}  // namespace

RequestDecision Policy::decide(RequestView& view, Mode mode) const {
  using Verdict = RequestDecision::Verdict;
  const RequestFacts& facts = view.facts();
  Judge judge{*this, mode};
  if (auto refusal = judge.special(facts.at, &view)) return denied(*std::move(refusal));
  RequestDecision out;
  WantedHeaders headers;
  Tally tally{judge, facts.at.who.label};
  for (const Entry& entry : entries_) {
    const Rule& rule = entry.rule;
    if (!judge.in_force(entry)) continue;
    // Rules come in the order deny, allow, ask, adjust, so what is known already decides what is worth a
    // look.
    if (rule.action == Action::kAsk && tally.of(entry).allow) continue;
    if (rule.action == Action::kAdjust && tally.verdict() == Verdict::kDeny) break;
    Finding found = judge.match(entry, view);
    if (only_address_open(found)) {
      if (rule.action == Action::kDeny && !rule.judges_requests()) continue;  // connection() will see to it
      if (rule.action == Action::kAllow && judge.dial_decides(facts.at)) {
        found.match = Match::kYes;
        out.provisional = true;
      }
    }
    if (!counts(rule, found.match)) {
      tally.missed(entry, found.miss);
      continue;
    }
    if (rule.action == Action::kDeny) {
      Refusal refusal = refused_by(rule, entry.id, what_of(facts));
      if (found.match == Match::kMaybe)
        refusal.hint = fmt::format("the {} of this request leaves open whether rule {} matches",
                                   miss_name(found.miss), entry.id);
      return denied(std::move(refusal));
    }
    if (rule.action == Action::kAllow) tally.of(entry).allow = &entry;
    if (rule.action == Action::kAsk) {
      tally.of(entry).ask = &entry;
      add_question(rule, entry.id, out);
    }
    apply(rule, entry.id, out);
    std::vector<HeaderSet>& wanted = headers[static_cast<std::size_t>(entry.source)];
    wanted.insert(wanted.end(), rule.set_headers.begin(), rule.set_headers.end());
  }
  out.set_headers = settled(headers);
  out.verdict = tally.verdict();
  if (out.verdict == Verdict::kDeny) return denied(tally.refusal(what_of(facts)));
  if (out.max_body_bytes && facts.body_bytes && *facts.body_bytes > *out.max_body_bytes) {
    return denied({out.body_rule, fmt::format("the body is larger than {} bytes", *out.max_body_bytes),
                   "send it in smaller parts"});
  }
  return out;
}

bool Policy::reads_body(const ConnectionFacts& facts) const {
  Judge judge{*this, Mode::kWithShadow};
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.rule.when && entry.rule.when->reads_body() && judge.reach(entry, facts).match != Match::kNo;
  });
}

Explanation Policy::explain(const RequestFacts& facts) const {
  RequestView view(facts);
  Judge judge{*this, Mode::kWithShadow};
  Explanation out{.decision = request(facts)};
  for (const Entry& entry : entries_) {
    Finding found = judge.match(entry, view);
    Explained one{.rule = entry.id, .action = entry.rule.action, .shadow = entry.shadow};
    one.matched = counts(entry.rule, found.match);
    if (found.match == Match::kMaybe)
      one.why_not = fmt::format("{}: unknown{}", miss_name(found.miss), one.matched ? ", so it counts" : "");
    if (found.match == Match::kNo) one.why_not = miss_name(found.miss);
    out.rules.push_back(std::move(one));
  }
  return out;
}

bool Policy::may_inspect() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    const Rule& rule = entry.rule;
    return rule.action == Action::kAsk || rule.changes_requests() || rule.judges_requests();
  });
}

}  // namespace atl::gateway::policy
