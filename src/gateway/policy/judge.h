// SPDX-License-Identifier: Apache-2.0
//
// Whether one rule matches one connection or request, and why not. For policy.cc and explain.cc only.
#pragma once

#include "gateway/policy/policy.h"

namespace atl::gateway::policy {

// Whether a rule matches. kMaybe: nobody can tell.
enum class Match : std::uint8_t { kNo, kMaybe, kYes };

// The first thing that does not fit, in the order in which things are looked at: a larger one is a nearer
// miss.
enum class Miss : std::uint8_t { kLabel, kHost, kPort, kProtocol, kMethod, kPath, kBody, kCondition, kNone };
std::string_view miss_name(Miss miss);  // "method"

// Both.
struct Finding {
  Match match = Match::kNo;
  Miss miss = Miss::kNone;  // kNone when it matches; with kMaybe what is not known
};

// A rule that takes something away: of it, "maybe" counts as "yes".
bool restricts(const Rule& rule);
// Restricting rules count when they may match, the others only when they do.
inline bool counts(const Rule& rule, Match match) {
  return match == Match::kYes || (match == Match::kMaybe && restricts(rule));
}

// Whether connections with this label see the rule. `own`: its set lets through something for the label by
// name, so that what it lets through for everybody is not for it.
bool sees(const Rule& rule, std::string_view label, bool own);
bool has_port(const Rule& rule, std::uint16_t port);
bool fits_stream(const Rule& rule, Stream stream);
// Everything of a rule that is known without a request. A rule about requests matches a stream that is
// neither HTTP nor TLS when it restricts, because nobody can look inside. `own` as above.
Finding reach(const Rule& rule, const ConnectionFacts& facts, bool own);
// The rest of it: method, path, size, condition.
Finding match_request(const Rule& rule, RequestView& request);
// All of it.
Finding match(const Rule& rule, RequestView& request, bool own);

}  // namespace atl::gateway::policy
