// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/shell_quote.h"

namespace atl::cli {
namespace {
constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,";
}  // namespace

std::string shell_quote(std::string_view text) {
  // A leading '=' or '~' is special to some shells, so only words that begin with a harmless character stay
  // bare.
  bool plain =
      !text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos && text.front() != '=';
  if (plain) return std::string(text);
  std::string out = "'";
  for (char c : text) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

std::string shell_join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += ' ';
    out += shell_quote(word);
  }
  return out;
}

}  // namespace atl::cli
