// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace atl {
void check_failed(const char* expression, const char* file, int line, const std::string& message) {
  std::fprintf(stderr, "atoll: invariant broken at %s:%d: %s: %s\n", file, line, expression, message.c_str());
  std::abort();
}
}  // namespace atl
