// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <cctype>

namespace atl {
namespace {

class SystemClock final : public Clock {
 public:
  WallTime now() const override {
    auto since = std::chrono::system_clock::now().time_since_epoch();
    return {std::chrono::duration_cast<Millis>(since).count()};
  }
  Steady::time_point steady_now() const override { return Steady::now(); }
};

// Reads exactly `count` digits at `pos` and moves past them; -1 when they are not digits.
int digits(std::string_view text, std::size_t& pos, std::size_t count) {
  if (pos + count > text.size()) return -1;
  int value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    char c = text[pos + i];
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  pos += count;
  return value;
}

bool literal(std::string_view text, std::size_t& pos, char expected) {
  if (pos >= text.size() || std::toupper(static_cast<unsigned char>(text[pos])) != expected) return false;
  ++pos;
  return true;
}

// Fraction digits after the point, as milliseconds; digits beyond the third are dropped.
std::optional<int> fraction_ms(std::string_view text, std::size_t& pos) {
  if (pos >= text.size() || text[pos] != '.') return 0;
  ++pos;
  int value = 0;
  int count = 0;
  while (pos < text.size() && text[pos] >= '0' && text[pos] <= '9') {
    if (count < 3) value = value * 10 + (text[pos] - '0');
    if (++count > 9) return std::nullopt;
    ++pos;
  }
  if (count == 0) return std::nullopt;
  for (; count < 3; ++count) value *= 10;
  return value;
}

std::optional<int> offset_minutes(std::string_view text, std::size_t& pos) {
  if (literal(text, pos, 'Z')) return 0;
  if (pos >= text.size() || (text[pos] != '+' && text[pos] != '-')) return std::nullopt;
  int sign = text[pos++] == '-' ? -1 : 1;
  int hours = digits(text, pos, 2);
  if (hours < 0 || hours > 23 || !literal(text, pos, ':')) return std::nullopt;
  int minutes = digits(text, pos, 2);
  if (minutes < 0 || minutes > 59) return std::nullopt;
  return sign * (hours * 60 + minutes);
}

}  // namespace

Clock& system_clock() {
  static SystemClock clock;
  return clock;
}

std::string format_rfc3339(WallTime time) {
  using namespace std::chrono;
  sys_time<Millis> point{Millis(time.ms)};
  auto day = floor<days>(point);
  year_month_day date{day};
  auto ms = (point - day).count();
  return fmt::format(FMT_COMPILE("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z"), int(date.year()),
                     unsigned(date.month()), unsigned(date.day()), ms / 3'600'000, ms / 60'000 % 60,
                     ms / 1000 % 60, ms % 1000);
}

std::optional<WallTime> parse_rfc3339(std::string_view text) {
  using namespace std::chrono;
  std::size_t pos = 0;
  int y = digits(text, pos, 4);
  if (y < 0 || !literal(text, pos, '-')) return std::nullopt;
  int mo = digits(text, pos, 2);
  if (mo < 0 || !literal(text, pos, '-')) return std::nullopt;
  int d = digits(text, pos, 2);
  year_month_day date{year(y), month(static_cast<unsigned>(mo < 0 ? 0 : mo)),
                      day(static_cast<unsigned>(d < 0 ? 0 : d))};
  if (!date.ok() || !literal(text, pos, 'T')) return std::nullopt;
  int h = digits(text, pos, 2);
  if (h < 0 || h > 23 || !literal(text, pos, ':')) return std::nullopt;
  int mi = digits(text, pos, 2);
  if (mi < 0 || mi > 59 || !literal(text, pos, ':')) return std::nullopt;
  int s = digits(text, pos, 2);
  if (s < 0 || s > 60) return std::nullopt;
  auto fraction = fraction_ms(text, pos);
  if (!fraction) return std::nullopt;
  auto offset = offset_minutes(text, pos);
  if (!offset || pos != text.size()) return std::nullopt;
  std::int64_t seconds =
      sys_days(date).time_since_epoch().count() * 86'400LL + h * 3600 + mi * 60 + s - *offset * 60;
  if (seconds < 0) return std::nullopt;
  return WallTime{seconds * 1000 + *fraction};
}

}  // namespace atl
