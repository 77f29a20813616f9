// SPDX-License-Identifier: Apache-2.0
//
// Caveat: what a narrowed token is good for. Each one takes something away; none can give.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "gateway/names/host_pattern.h"

namespace atl::gateway::token {

// Absent parts take nothing away.
struct Caveat {
  std::optional<HostPattern> host;
  std::string path_prefix;  // whole segments
  std::vector<std::string> methods;
  std::optional<WallTime> until;
  std::string label;  // of the process that makes the request
};

// What a request is measured by.
struct Use {
  const Host& host;
  std::string_view method;
  std::string_view path;
  std::string_view label;
  WallTime now;
};

// {"host": "*.example.com", "path": "/v1", "methods": ["GET"], "until": "2026-01-01T00:00:00Z", "label":
// "tests"}. kInvalid for fields that are not known: what is not understood must not be allowed.
Result<Caveat> parse_caveat(std::string_view text);
// kDenied, word "token_narrowed", when `caveat` does not allow `use`; says which part.
Result<void> check_caveat(const Caveat& caveat, const Use& use);

}  // namespace atl::gateway::token
