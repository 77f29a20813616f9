// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace atl::runner {

// Runs the first of these files that there is, with no environment of ours and no output but what it says on
// standard error, and waits for it. Gives its exit status; a program that a signal ended is an error.
Result<int> run_program(const std::vector<const char*>& files, const std::vector<std::string>& words);

}  // namespace atl::runner
