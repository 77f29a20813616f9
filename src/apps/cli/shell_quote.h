// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace atl::cli {

// One word of a POSIX shell that expands to exactly `text`. Plain words stay readable: no quotes are added.
std::string shell_quote(std::string_view text);
// The words joined by spaces, each quoted.
std::string shell_join(const std::vector<std::string>& words);

}  // namespace atl::cli
