// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "base/text.h"

namespace atl::log {
namespace {

Level initial_level() {
  const char* wanted = std::getenv("ATOLL_LOG");
  if (wanted == nullptr) return Level::kInfo;
  if (std::strcmp(wanted, "debug") == 0) return Level::kDebug;
  if (std::strcmp(wanted, "warn") == 0) return Level::kWarn;
  if (std::strcmp(wanted, "error") == 0) return Level::kError;
  return Level::kInfo;
}

std::atomic<Level> current_level{initial_level()};
std::string program = "atoll";

std::string_view name(Level level) {
  switch (level) {
    case Level::kDebug: return "debug";
    case Level::kInfo: return "info";
    case Level::kWarn: return "warn";
    case Level::kError: return "error";
  }
  return "info";
}

std::string as_json(Level level, std::string_view message, std::initializer_list<Field> fields) {
  std::string line =
      fmt::format(R"({{"time":"{}","level":"{}","program":"{}","message":{})",
                  format_rfc3339(system_clock().now()), name(level), program, json_quote(message));
  for (const Field& field : fields) {
    line +=
        fmt::format(",{}:{}", json_quote(field.key), field.quoted ? json_quote(field.value) : field.value);
  }
  return line + "}\n";
}

std::string as_text(Level level, std::string_view message, std::initializer_list<Field> fields) {
  std::string line =
      fmt::format("{} {:5} {:30}", format_rfc3339(system_clock().now()).substr(11, 12), name(level), message);
  for (const Field& field : fields) line += fmt::format(" {}={}", field.key, printable(field.value));
  return line + "\n";
}

}  // namespace

void set_level(Level wanted) { current_level = wanted; }
Level level() { return current_level; }
void set_program(std::string_view wanted) { program = wanted; }

void write(Level level, std::string_view message, std::initializer_list<Field> fields) {
  if (level < current_level.load(std::memory_order_relaxed)) return;
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  std::string line = terminal ? as_text(level, message, fields) : as_json(level, message, fields);
  // One write per line, so that lines of several threads do not mix. A full disk must not stop the daemon.
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace atl::log
