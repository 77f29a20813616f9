// SPDX-License-Identifier: Apache-2.0
//
// One event a line. Messages are constant strings, values are fields:
//
//   log::info("sandbox started", {{"id", id}, {"ms", took}});
//
// Aligned text on a terminal, JSON otherwise. Levels: error = someone must act; warn = degraded;
// info = state changes; debug = off unless ATOLL_LOG=debug. Secrets have a type that cannot be a field.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace atl::log {

enum class Level { kDebug, kInfo, kWarn, kError };

struct Field {
  std::string key;
  std::string value;
  bool quoted = true;  // false for numbers and booleans

  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, const char* v) : key(k), value(v) {}
  Field(std::string_view k, const std::string& v) : key(k), value(v) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Field(std::string_view k, T v) : key(k), value(fmt::format("{}", v)), quoted(false) {}
};

void write(Level level, std::string_view message, std::initializer_list<Field> fields);
void set_level(Level level);
Level level();
// Name of this program in each line; call once from main.
void set_program(std::string_view name);

inline void debug(std::string_view m, std::initializer_list<Field> f = {}) { write(Level::kDebug, m, f); }
inline void info(std::string_view m, std::initializer_list<Field> f = {}) { write(Level::kInfo, m, f); }
inline void warn(std::string_view m, std::initializer_list<Field> f = {}) { write(Level::kWarn, m, f); }
inline void error(std::string_view m, std::initializer_list<Field> f = {}) { write(Level::kError, m, f); }

}  // namespace atl::log
