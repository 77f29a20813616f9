// SPDX-License-Identifier: Apache-2.0
#include "http/message.h"

#include <algorithm>

#include "base/text.h"

namespace atl::http {

void Headers::set(std::string_view name, std::string value) {
  auto first = std::find_if(list_.begin(), list_.end(), [&](const Header& h) { return h.name == name; });
  if (first == list_.end()) return add(std::string(name), std::move(value));
  first->value = std::move(value);
  auto same = [&](const Header& h) { return h.name == name; };
  list_.erase(std::remove_if(first + 1, list_.end(), same), list_.end());
}

void Headers::remove(std::string_view name) {
  std::erase_if(list_, [&](const Header& h) { return h.name == name; });
}

std::optional<std::string_view> Headers::find(std::string_view name) const {
  for (const auto& header : list_) {
    if (header.name == name) return header.value;
  }
  return std::nullopt;
}

std::size_t Headers::count(std::string_view name) const {
  return static_cast<std::size_t>(
      std::count_if(list_.begin(), list_.end(), [&](const Header& h) { return h.name == name; }));
}

bool Headers::has_token(std::string_view name, std::string_view token) const {
  for (const auto& header : list_) {
    if (header.name != name) continue;
    for (auto part : split(header.value, ',')) {
      if (equals_ignore_case(trim(part), token)) return true;
    }
  }
  return false;
}

std::string_view RequestHead::path() const { return std::string_view(target).substr(0, target.find('?')); }

std::string_view RequestHead::query() const {
  auto mark = target.find('?');
  return mark == std::string::npos ? std::string_view() : std::string_view(target).substr(mark + 1);
}

bool is_idempotent(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS" || method == "PUT" ||
         method == "DELETE" || method == "TRACE";
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100: return "Continue";
    case 101: return "Switching Protocols";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 303: return "See Other";
    case 304: return "Not Modified";
    case 307: return "Temporary Redirect";
    case 308: return "Permanent Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 411: return "Length Required";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 416: return "Range Not Satisfiable";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 426: return "Upgrade Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 499: return "Client Closed Request";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    case 507: return "Insufficient Storage";
    default: return "Status";
  }
}

std::string_view ResponseHead::reason() const { return reason_phrase(status); }

namespace {
int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}
}  // namespace

std::optional<std::string> percent_decode(std::string_view text, Plus plus) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus == Plus::kSpace) {
      c = ' ';
    }
    if (c == '\0') return std::nullopt;
    out += c;
  }
  return out;
}

std::string percent_encode(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (is_unreserved(c)) {
      out += c;
    } else {
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

Result<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> out;
  for (auto part : split(query, '&')) {
    if (part.empty()) continue;
    auto equals = part.find('=');
    auto key = percent_decode(part.substr(0, equals), Plus::kSpace);
    auto value =
        percent_decode(equals == std::string_view::npos ? "" : part.substr(equals + 1), Plus::kSpace);
    if (!key || !value) {
      return make_error(Code::kInvalid, "query part '{}' has a bad percent escape",
                        printable(part.substr(0, 64)));
    }
    out.emplace_back(*std::move(key), *std::move(value));
  }
  return out;
}

std::optional<std::string> query_value(const std::vector<std::pair<std::string, std::string>>& query,
                                       std::string_view key) {
  for (const auto& [name, value] : query) {
    if (name == key) return value;
  }
  return std::nullopt;
}

}  // namespace atl::http
