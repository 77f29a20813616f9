// SPDX-License-Identifier: Apache-2.0
#include "http/trailers.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "http/syntax.h"

namespace atl::http {
namespace {
constexpr std::array<std::string_view, 26> kNever = {"age",
                                                     "authorization",
                                                     "cache-control",
                                                     "connection",
                                                     "content-encoding",
                                                     "content-length",
                                                     "content-range",
                                                     "content-type",
                                                     "cookie",
                                                     "expect",
                                                     "expires",
                                                     "host",
                                                     "if-match",
                                                     "if-none-match",
                                                     "keep-alive",
                                                     "location",
                                                     "proxy-authenticate",
                                                     "proxy-authorization",
                                                     "range",
                                                     "set-cookie",
                                                     "te",
                                                     "trailer",
                                                     "transfer-encoding",
                                                     "upgrade",
                                                     "vary",
                                                     "www-authenticate"};
}  // namespace

bool may_be_trailer(std::string_view name) {
  return is_token(name) && std::find(kNever.begin(), kNever.end(), name) == kNever.end();
}

Result<Headers> parse_trailers(std::string_view lines) {
  Headers out;
  while (!lines.empty()) {
    auto end = lines.find("\r\n");
    auto line = lines.substr(0, end);
    auto colon = line.find(':');
    if (end == std::string_view::npos || colon == std::string_view::npos)
      return make_error(Code::kInvalid, "malformed chunked body: trailer field without its end or colon");
    auto name = to_lower(line.substr(0, colon));
    auto value = trim(line.substr(colon + 1));
    if (!is_token(name) || !is_field_value(value))
      return make_error(Code::kInvalid, "malformed chunked body: trailer field with forbidden characters");
    if (may_be_trailer(name)) out.add(std::move(name), std::string(value));
    lines.remove_prefix(end + 2);
  }
  return out;
}

std::string last_chunk(const Headers& trailers) {
  std::string out = "0\r\n";
  for (const auto& field : trailers) {
    if (may_be_trailer(field.name) && is_field_value(field.value))
      out.append(field.name).append(": ").append(field.value).append("\r\n");
  }
  out += "\r\n";
  return out;
}

}  // namespace atl::http
