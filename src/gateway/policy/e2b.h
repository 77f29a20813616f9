// SPDX-License-Identifier: Apache-2.0
//
// The network object of E2B's API as rules of a sandbox.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gateway/policy/rule.h"

namespace atl::gateway::policy {

inline constexpr std::size_t kMaxE2bHosts = 10;         // in `rules`
inline constexpr std::size_t kMaxE2bPlaceholders = 32;  // in all values together
inline constexpr std::size_t kMaxE2bEntries = 256;      // of allowOut and of denyOut

// As the API got it.
struct E2bNetwork {
  std::vector<std::string> allow_out;                               // addresses, blocks, names, *.names, "*"
  std::vector<std::string> deny_out;                                // addresses and blocks
  std::map<std::string, std::map<std::string, std::string>> rules;  // host -> header -> value
  std::vector<std::uint16_t> https_ports;
  bool allow_internet_access = true;  // false is "0.0.0.0/0" in deny_out
};

// allowOut goes before denyOut. "0.0.0.0/0" in denyOut means everything, so then only allowOut is open;
// without it everything public is open but denyOut. Names in allowOut are for ports 80, 443 and httpsPorts,
// as they are there. `rules` change requests that go out anyway and open nothing. kInvalid, with the field,
// where E2B answers 400.
Result<RuleSet> rules_from_e2b(const E2bNetwork& network);

}  // namespace atl::gateway::policy
