// SPDX-License-Identifier: Apache-2.0
//
// Trying features of the kernel and the machine: each probe does the thing it asks about, in a child that is
// thrown away, and never trusts a version.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace atl::sys {

// One feature that can be tried. `attempt` runs in a child of its own and gives the errno, 0 when it works;
// it may change that child as it likes. Needs root.
struct FeatureProbe {
  const char* name;  // as in the table of features
  int (*attempt)();
};
std::span<const FeatureProbe> feature_probes();

// Forks: call while the process has one thread. Blocking, some milliseconds, at most kProbeBound. nullopt
// when there is no probe of this name.
std::optional<int> try_feature(std::string_view name);
inline constexpr unsigned kProbeBoundSeconds = 10;

// The path of an executable `name`: `given`, or the first one in PATH when that is empty.
std::optional<std::string> find_program(std::string_view name, const std::string& given = {});

}  // namespace atl::sys
