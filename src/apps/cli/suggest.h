// SPDX-License-Identifier: Apache-2.0
//
// "Did you mean ...?" for mistyped names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace atl::cli {

// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `typed`, or empty when none is near enough to be what was meant.
std::string suggest(std::string_view typed, const std::vector<std::string>& candidates);

}  // namespace atl::cli
