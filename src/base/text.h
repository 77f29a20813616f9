// SPDX-License-Identifier: Apache-2.0
//
// Small text helpers without a better home.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace atl {

// A JSON string literal with its quotes. Invalid UTF-8 becomes U+FFFD.
std::string json_quote(std::string_view text);
// The text with control characters (also ESC) replaced, safe to print on a terminal or in a log.
std::string printable(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);  // keeps empty parts
std::string_view trim(std::string_view text);                                // spaces and tabs
std::string to_lower(std::string_view text);                                 // ASCII only
bool equals_ignore_case(std::string_view a, std::string_view b);             // ASCII only

// The whole text as a decimal number: no sign for unsigned types, no spaces, no leading '+', no overflow.
template <std::integral T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

}  // namespace atl
