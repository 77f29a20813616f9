// SPDX-License-Identifier: Apache-2.0
#include "http/syntax.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace atl::http {
namespace {

using Table = std::array<bool, 256>;

constexpr Table make_token_table() {
  Table table{};
  for (int c = '0'; c <= '9'; ++c) table[c] = true;
  for (int c = 'a'; c <= 'z'; ++c) table[c] = table[c - 'a' + 'A'] = true;
  for (char c : {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'}) table[c] = true;
  return table;
}

constexpr Table make_value_table() {
  Table table{};
  for (int c = 0x20; c < 256; ++c) table[c] = c != 0x7f;
  table['\t'] = true;
  return table;
}

constexpr Table make_host_table() {
  Table table{};
  for (int c = '0'; c <= '9'; ++c) table[c] = true;
  for (int c = 'a'; c <= 'z'; ++c) table[c] = table[c - 'a' + 'A'] = true;
  for (char c : {'-', '.', '_', '~', '%', '!', '$', '&', '\'', '(', ')', '*', '+', ',', ';', '='})
    table[c] = true;
  return table;
}

constexpr Table kToken = make_token_table();
constexpr Table kValue = make_value_table();
constexpr Table kHost = make_host_table();

bool all_in(std::string_view text, const Table& table) {
  return std::all_of(text.begin(), text.end(), [&](char c) { return table[static_cast<unsigned char>(c)]; });
}

bool is_port(std::string_view text) {
  auto port = parse_number<std::uint16_t>(text);
  return port.has_value() && *port != 0;
}

bool is_ipv6_literal(std::string_view text) {
  if (text.size() < 4 || text.front() != '[' || text.back() != ']') return false;
  auto inner = text.substr(1, text.size() - 2);
  return inner.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
}
}  // namespace

bool is_token(std::string_view text) { return !text.empty() && all_in(text, kToken); }

bool is_field_value(std::string_view text) {
  return all_in(text, kValue) && trim(text).size() == text.size();
}

bool is_authority(std::string_view text) {
  auto colon = text.rfind(':');
  auto bracket = text.rfind(']');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    if (!is_port(text.substr(colon + 1))) return false;
    text = text.substr(0, colon);
  }
  return is_ipv6_literal(text) || (!text.empty() && all_in(text, kHost));
}

bool is_origin_form(std::string_view text) {
  if (text.empty() || text.front() != '/') return false;
  auto query = std::min(text.find('?'), text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    if (c <= 0x20 || c >= 0x7f || c == '#' || (c == '\\' && i < query)) return false;
  }
  return true;
}

Result<void> check_headers(const Headers& headers) {
  for (const auto& header : headers) {
    if (!is_token(header.name) || !is_field_value(header.value)) {
      return make_error(Code::kInvalid,
                        "header field '{}' cannot be sent: it holds characters that are not allowed",
                        printable(header.name.substr(0, 64)));
    }
  }
  return success();
}

std::optional<std::uint64_t> parse_content_length(std::string_view text) {
  if (text.empty() || text.size() > 19) return std::nullopt;  // 19 digits always fit
  if (text.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return parse_number<std::uint64_t>(text);
}

}  // namespace atl::http
