// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/parse.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/text.h"

namespace atl::cli {
namespace {
constexpr std::chrono::seconds kMaxDuration = std::chrono::hours(24 * 30);

bool valid_env_name(std::string_view name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty() || !letter(name.front())) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

// Factor of a duration unit, 0 when unknown.
std::int64_t unit_seconds(char unit) {
  switch (unit) {
    case 's': return 1;
    case 'm': return 60;
    case 'h': return 3600;
    case 'd': return 86400;
    default: return 0;
  }
}
}  // namespace

Result<std::chrono::seconds> parse_duration(std::string_view text) {
  std::int64_t factor = 1;
  std::string_view digits = text;
  if (!text.empty() && (text.back() < '0' || text.back() > '9')) {
    factor = unit_seconds(text.back());
    digits.remove_suffix(1);
  }
  auto number = parse_number<std::uint32_t>(digits);
  if (!number || factor == 0) {
    return make_error(Code::kInvalid, "'{}' is not a duration; write for example 90s, 5m, 2h or 1d",
                      printable(text));
  }
  std::chrono::seconds value(std::int64_t{*number} * factor);
  if (value > kMaxDuration)
    return make_error(Code::kInvalid, "the duration {} is longer than 30 days", printable(text));
  return value;
}

Result<std::optional<std::chrono::seconds>> parse_idle(std::string_view text) {
  if (text.empty()) return std::optional<std::chrono::seconds>();
  if (text == "off") return std::optional(std::chrono::seconds(0));
  TRY(std::chrono::seconds time, parse_duration(text));
  if (time.count() > 0) return std::optional(time);
  return make_error(Code::kInvalid, "an idle time of {} is none; write 'off' for none", printable(text));
}

Result<std::uint64_t> parse_size(std::string_view text) {
  std::string_view digits = text;
  if (digits.ends_with("iB")) digits.remove_suffix(2);
  unsigned shift = 0;
  if (!digits.empty()) {
    std::size_t at = std::string_view("kmgt").find(to_lower(digits.substr(digits.size() - 1)));
    if (at != std::string_view::npos) {
      shift = static_cast<unsigned>(at + 1) * 10;
      digits.remove_suffix(1);
    }
  }
  auto number = parse_number<std::uint64_t>(digits);
  if (!number || (shift != 0 && *number > (UINT64_MAX >> shift))) {
    return make_error(Code::kInvalid, "'{}' is not a size; write for example 512M or 4G", printable(text));
  }
  return *number << shift;
}

Result<std::map<std::string, std::string>> parse_env(const std::vector<std::string>& items) {
  std::map<std::string, std::string> out;
  for (const std::string& item : items) {
    std::size_t equals = item.find('=');
    std::string name = item.substr(0, equals);
    if (!valid_env_name(name)) {
      return make_error(Code::kInvalid, "'{}' is not the name of an environment variable", printable(name))
          .with_hint("write --env NAME=VALUE, or --env NAME to pass on a variable of your shell");
    }
    if (equals != std::string::npos) {
      out[name] = item.substr(equals + 1);
      continue;
    }
    const char* own = std::getenv(name.c_str());
    if (own == nullptr) {
      return make_error(Code::kInvalid, "--env {}: your shell has no such variable", name)
          .with_hint(fmt::format("export it first, or write --env {}=VALUE", name));
    }
    out[name] = own;
  }
  return out;
}

Result<std::map<std::string, std::string>> parse_metadata(const std::vector<std::string>& items) {
  std::map<std::string, std::string> out;
  for (const std::string& item : items) {
    std::size_t equals = item.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return make_error(Code::kInvalid, "'{}' is not KEY=VALUE", printable(item));
    }
    out[item.substr(0, equals)] = item.substr(equals + 1);
  }
  return out;
}

std::string format_duration(std::chrono::seconds duration) {
  std::int64_t s = std::max<std::int64_t>(0, duration.count());
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return s % 60 ? fmt::format("{}m {}s", s / 60, s % 60) : fmt::format("{}m", s / 60);
  if (s < 86400)
    return s / 60 % 60 ? fmt::format("{}h {}m", s / 3600, s / 60 % 60) : fmt::format("{}h", s / 3600);
  return s / 3600 % 24 ? fmt::format("{}d {}h", s / 86400, s / 3600 % 24) : fmt::format("{}d", s / 86400);
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 4> kUnits{"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (value /= 1024; value >= 1023.95 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return value < 9.95 ? fmt::format("{:.1f} {}", value, kUnits[unit])
                      : fmt::format("{:.0f} {}", value, kUnits[unit]);
}

std::string format_count(std::size_t count, std::string_view noun) {
  if (count == 1) return fmt::format("1 {}", noun);
  bool hissing = noun.ends_with('x') || noun.ends_with('s');
  return fmt::format("{} {}{}", count, noun, hissing ? "es" : "s");
}

}  // namespace atl::cli
