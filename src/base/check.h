// SPDX-License-Identifier: Apache-2.0
//
// CHECK(condition, "message {}", args...): an invariant of ours. Always on; a violation ends the process,
// because going on would risk two owners for one object. Never use it on input from outside.
#pragma once

#include <fmt/format.h>

#include <string>

namespace atl {
[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const std::string& message);
}  // namespace atl

#define CHECK(condition, ...)                                                          \
  do {                                                                                 \
    if (!(condition)) [[unlikely]]                                                     \
      ::atl::check_failed(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)
