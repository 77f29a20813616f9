// SPDX-License-Identifier: Apache-2.0
#include "guest/interpreter/lines.h"

#include <array>
#include <utility>

#include <boost/json.hpp>

#include "base/clock.h"
#include "guest/json.h"

namespace atl::guest::interpreter {
namespace json = boost::json;
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kFields = {
    {{"text/plain", "text"},
     {"text/html", "html"},
     {"text/markdown", "markdown"},
     {"image/svg+xml", "svg"},
     {"image/png", "png"},
     {"image/jpeg", "jpeg"},
     {"application/pdf", "pdf"},
     {"text/latex", "latex"},
     {"application/json", "json"},
     {"application/javascript", "javascript"},
     {kDataType, "data"},
     {kChartType, "chart"}}};

std::string_view field_of(std::string_view type) {
  for (const auto& [mime, field] : kFields) {
    if (mime == type) return field;
  }
  return {};
}

// The representation of a string is shown without its quotes.
std::string_view without_quotes(std::string_view text) {
  bool quoted =
      text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.back() == text.front();
  return quoted ? text.substr(1, text.size() - 2) : text;
}

std::string as_line(const json::object& object) { return ascii_json(json::serialize(object)) + "\n"; }

// Code point of the UTF-8 sequence at `at`, and its length. The text is valid.
std::pair<char32_t, std::size_t> code_point(std::string_view text, std::size_t at) {
  auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  if (byte(0) < 0xe0) return {(byte(0) & 0x1f) << 6 | (byte(1) & 0x3f), 2};
  if (byte(0) < 0xf0) return {(byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
  return {(byte(0) & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f), 4};
}

// Bytes of the character that `lead` begins.
std::size_t sequence_length(unsigned char lead) {
  if (lead >= 0xf0) return 4;
  if (lead >= 0xe0) return 3;
  return lead >= 0xc0 ? 2 : 1;
}

}  // namespace

std::string ascii_json(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      out.push_back(text[at++]);
      continue;
    }
    auto [point, length] = code_point(text, at);
    at += length;
    if (point >= 0x10000) {
      point -= 0x10000;
      fmt::format_to(std::back_inserter(out), "\\u{:04x}\\u{:04x}",
                     0xd800 + static_cast<unsigned>(point >> 10),
                     0xdc00 + static_cast<unsigned>(point & 0x3ff));
    } else {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(point));
    }
  }
  return out;
}

std::string output_line(std::string_view stream, std::string_view text) {
  ObjectWriter line;  // puts U+FFFD for what is no UTF-8
  line.text("type", stream).text("text", text).text("timestamp", format_rfc3339(system_clock().now()));
  return ascii_json(std::move(line).finish()) + "\n";
}

std::string count_line(std::int64_t executions) {
  ObjectWriter line;
  line.text("type", "number_of_executions").number("execution_count", executions);
  return std::move(line).finish() + "\n";
}

std::string error_line(std::string_view name, std::string_view value, std::string_view traceback) {
  ObjectWriter line;
  line.text("type", "error").text("name", name).text("value", value).text("traceback", traceback);
  return ascii_json(std::move(line).finish()) + "\n";
}

std::string result_line(const json::object& bundle, bool main) {
  json::object line{{"type", "result"}}, extra;
  for (const auto& entry : bundle) {
    std::string_view field = field_of({entry.key().data(), entry.key().size()});
    if (field.empty()) {
      extra[entry.key()] = entry.value();
    } else if (field == "text" && entry.value().is_string()) {
      const auto& text = entry.value().get_string();
      line["text"] = without_quotes({text.data(), text.size()});
    } else {
      line[json::string_view(field.data(), field.size())] = entry.value();
    }
  }
  line["extra"] = std::move(extra);
  line["is_main_result"] = main;
  return as_line(line);
}

std::string Utf8Pieces::take(std::string_view bytes) {
  std::string out = std::move(tail_);
  out.append(bytes);
  tail_.clear();
  // Looks back from the end for a character that has begun and is not complete.
  for (std::size_t back = 1; back <= 3 && back <= out.size(); ++back) {
    auto byte = static_cast<unsigned char>(out[out.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    if (sequence_length(byte) > back) {
      tail_ = out.substr(out.size() - back);
      out.resize(out.size() - back);
    }
    break;
  }
  return out;
}

std::string Utf8Pieces::rest() { return std::exchange(tail_, std::string()); }

}  // namespace atl::guest::interpreter
