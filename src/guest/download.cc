// SPDX-License-Identifier: Apache-2.0
#include "guest/download.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "base/text.h"

namespace atl::guest {
namespace {

struct Accepted {
  std::string name;
  int quality = 1000;  // thousandths
};

// "0.5" → 500; anything malformed counts as 1, as common servers do.
int parse_quality(std::string_view text) {
  if (text.empty() || (text.front() != '0' && text.front() != '1')) return 1000;
  int value = (text.front() - '0') * 1000;
  if (text.size() == 1) return value;
  if (text[1] != '.' || text.size() > 5) return 1000;
  int scale = 100;
  for (char c : text.substr(2)) {
    if (c < '0' || c > '9') return 1000;
    value += (c - '0') * scale;
    scale /= 10;
  }
  return std::min(value, 1000);
}

std::vector<Accepted> parse_accepted(const http::Headers& headers) {
  std::vector<Accepted> out;
  for (const http::Header& header : headers) {
    if (header.name != "accept-encoding") continue;
    for (std::string_view item : split(header.value, ',')) {
      auto parts = split(item, ';');
      Accepted accepted{to_lower(trim(parts[0]))};
      for (std::size_t i = 1; i < parts.size(); ++i) {
        std::string_view parameter = trim(parts[i]);
        if (parameter.starts_with("q=") || parameter.starts_with("Q="))
          accepted.quality = parse_quality(parameter.substr(2));
      }
      if (!accepted.name.empty()) out.push_back(std::move(accepted));
    }
  }
  return out;
}

std::optional<int> quality_of(const std::vector<Accepted>& list, std::string_view name) {
  for (const Accepted& accepted : list) {
    if (accepted.name == name) return accepted.quality;
  }
  return std::nullopt;
}

}  // namespace

RangeChoice choose_range(std::optional<std::string_view> value, std::uint64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  if (!value || !equals_ignore_case(value->substr(0, kUnit.size()), kUnit)) return {};
  std::string_view spec = trim(value->substr(kUnit.size()));
  std::size_t dash = spec.find('-');
  if (dash == std::string_view::npos || spec.find(',') != std::string_view::npos) return {};
  std::string_view from_text = trim(spec.substr(0, dash)), to_text = trim(spec.substr(dash + 1));
  auto from = parse_number<std::uint64_t>(from_text), to = parse_number<std::uint64_t>(to_text);
  if ((!from && !from_text.empty()) || (!to && !to_text.empty()) || (!from && !to)) return {};
  if (!from) {
    std::uint64_t length = std::min(*to, size);
    if (length == 0) return {RangeKind::kUnsatisfiable, {}};
    return {RangeKind::kPart, {size - length, length}};
  }
  if (to && *to < *from) return {};
  if (*from >= size) return {RangeKind::kUnsatisfiable, {}};
  std::uint64_t last = to ? std::min(*to, size - 1) : size - 1;
  return {RangeKind::kPart, {*from, last - *from + 1}};
}

Encoding choose_encoding(const http::Headers& headers) {
  auto accepted = parse_accepted(headers);
  auto any = quality_of(accepted, "*");
  int identity = quality_of(accepted, "identity").value_or(any == 0 ? 0 : 1);
  int gzip = quality_of(accepted, "gzip").value_or(identity == 0 ? any.value_or(0) : 0);
  if (gzip > 0 && gzip >= identity) return Encoding::kGzip;
  return identity > 0 ? Encoding::kIdentity : Encoding::kNone;
}

std::string_view media_type_of(std::string_view name) {
  struct Row {
    std::string_view extension, type;
  };
  static constexpr std::array<Row, 24> kRows = {{
      {"css", "text/css; charset=utf-8"},
      {"csv", "text/csv; charset=utf-8"},
      {"gif", "image/gif"},
      {"gz", "application/gzip"},
      {"htm", "text/html; charset=utf-8"},
      {"html", "text/html; charset=utf-8"},
      {"jpeg", "image/jpeg"},
      {"jpg", "image/jpeg"},
      {"js", "text/javascript; charset=utf-8"},
      {"json", "application/json"},
      {"md", "text/markdown; charset=utf-8"},
      {"mjs", "text/javascript; charset=utf-8"},
      {"mp3", "audio/mpeg"},
      {"mp4", "video/mp4"},
      {"pdf", "application/pdf"},
      {"png", "image/png"},
      {"svg", "image/svg+xml"},
      {"tar", "application/x-tar"},
      {"txt", "text/plain; charset=utf-8"},
      {"wasm", "application/wasm"},
      {"webm", "video/webm"},
      {"webp", "image/webp"},
      {"xml", "text/xml; charset=utf-8"},
      {"zip", "application/zip"},
  }};
  std::size_t dot = name.rfind('.');
  if (dot != std::string_view::npos) {
    std::string extension = to_lower(name.substr(dot + 1));
    for (const Row& row : kRows) {
      if (row.extension == extension) return row.type;
    }
  }
  return "application/octet-stream";
}

std::string content_disposition(std::string_view name) {
  bool plain = std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c < 127; });
  if (!plain) return fmt::format("inline; filename*=utf-8''{}", http::percent_encode(name));
  std::string quoted;
  for (char c : name) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return fmt::format("inline; filename=\"{}\"", quoted);
}

std::string http_date(std::int64_t unix_seconds) {
  constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  constexpr std::int64_t kYear10000 = 253'402'300'800;
  time_t seconds = std::clamp<std::int64_t>(unix_seconds, 0, kYear10000 - 1);
  struct tm parts = {};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
                     kDays[static_cast<std::size_t>(parts.tm_wday)], parts.tm_mday,
                     kMonths[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900, parts.tm_hour,
                     parts.tm_min, parts.tm_sec);
}

}  // namespace atl::guest
