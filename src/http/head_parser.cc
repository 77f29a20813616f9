// SPDX-License-Identifier: Apache-2.0
#include "http/head_parser.h"

#include <llhttp.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "http/syntax.h"

namespace atl::http {
namespace {

// What llhttp finds in a head.
struct Tokens {
  std::string target;
  Headers headers;
  std::string name;
  std::string value;
  bool complete = false;
};

Tokens& tokens_of(llhttp_t* parser) { return *static_cast<Tokens*>(parser->data); }

int on_target(llhttp_t* parser, const char* at, std::size_t size) {
  tokens_of(parser).target.append(at, size);
  return 0;
}
int on_name(llhttp_t* parser, const char* at, std::size_t size) {
  tokens_of(parser).name.append(at, size);
  return 0;
}
int on_value(llhttp_t* parser, const char* at, std::size_t size) {
  tokens_of(parser).value.append(at, size);
  return 0;
}
int on_value_complete(llhttp_t* parser) {
  auto& tokens = tokens_of(parser);
  tokens.headers.add(to_lower(tokens.name), std::string(trim(tokens.value)));
  tokens.name.clear();
  tokens.value.clear();
  return 0;
}
int on_headers_complete(llhttp_t* parser) {
  tokens_of(parser).complete = true;
  return 0;
}

const llhttp_settings_t& settings() {
  static const llhttp_settings_t kSettings = [] {
    llhttp_settings_t s;
    llhttp_settings_init(&s);
    s.on_url = on_target;
    s.on_header_field = on_name;
    s.on_header_value = on_value;
    s.on_header_value_complete = on_value_complete;
    s.on_headers_complete = on_headers_complete;
    return s;
  }();
  return kSettings;
}

Refusal refuse(int status, std::string message) { return Refusal{status, std::move(message)}; }

// Runs llhttp over one whole head. The refusal is empty (status 0) when it went well.
Refusal tokenize(llhttp_type_t type, std::string_view text, llhttp_t& parser, Tokens& tokens) {
  llhttp_init(&parser, type, &settings());
  parser.data = &tokens;
  auto error = llhttp_execute(&parser, text.data(), text.size());
  bool well = error == HPE_OK || error == HPE_PAUSED_UPGRADE;
  if (well && tokens.complete) return refuse(0, "");
  if (error == HPE_INVALID_VERSION) return refuse(505, "only HTTP/1.0 and HTTP/1.1 are understood here");
  const char* reason = llhttp_get_error_reason(&parser);
  return refuse(400, fmt::format("malformed message head: {}",
                                 reason != nullptr && *reason != '\0' ? reason : "unexpected end"));
}

// The lines of the head as bytes: what llhttp repairs or lets pass is refused here.
Refusal check_lines(std::string_view text, std::size_t header_count) {
  std::size_t lines = 0;
  for (std::size_t at = 0; at < text.size(); ++lines) {
    auto end = text.find("\r\n", at);
    if (end == std::string_view::npos) return refuse(400, "line without CRLF");
    auto line = text.substr(at, end - at);
    if (line.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos) {
      return refuse(400, "carriage return, line feed or NUL inside a line");
    }
    if (lines > 0 && !line.empty()) {
      if (line.front() == ' ' || line.front() == '\t') return refuse(400, "folded header line");
      auto colon = line.find(':');
      if (colon == std::string_view::npos) return refuse(400, "header line without a colon");
      if (!is_token(line.substr(0, colon)))
        return refuse(400, "header name with characters that are not allowed");
      if (!is_field_value(trim(line.substr(colon + 1))))
        return refuse(400, "control character in a header value");
    }
    at = end + 2;
  }
  if (lines > header_count + 2) return refuse(431, fmt::format("more than {} header fields", header_count));
  return refuse(0, "");
}

// Everybody who passes a message on compares each field with each option of Connection (RFC 9110 §7.6.1), so
// a long list would cost its reader the product of both. Honest ones have two or three options.
Refusal check_connection(const Headers& headers) {
  constexpr std::ptrdiff_t kMaxOptions = 32;
  std::ptrdiff_t options = 0;
  for (const auto& field : headers) {
    if (field.name == "connection") options += 1 + std::count(field.value.begin(), field.value.end(), ',');
  }
  if (options > kMaxOptions) return refuse(400, fmt::format("more than {} connection options", kMaxOptions));
  return refuse(0, "");
}

// Content-Length and Transfer-Encoding, where any doubt is a refusal (RFC 9112 §6.1, §6.3).
Refusal read_framing(const Headers& headers, bool http_1_1, Framing& framing,
                     std::optional<std::uint64_t>& length) {
  auto codings = headers.count("transfer-encoding");
  auto lengths = headers.count("content-length");
  if (codings > 0 && lengths > 0) return refuse(400, "both Content-Length and Transfer-Encoding");
  if (lengths > 1) return refuse(400, "more than one Content-Length");
  if (codings > 1) return refuse(400, "more than one Transfer-Encoding");
  if (lengths == 1) {
    length = parse_content_length(*headers.find("content-length"));
    if (!length) return refuse(400, "Content-Length is not a plain number");
    framing = Framing::kLength;
  }
  if (codings == 1) {
    if (!http_1_1) return refuse(400, "Transfer-Encoding in an HTTP/1.0 message");
    if (!equals_ignore_case(*headers.find("transfer-encoding"), "chunked")) {
      return refuse(400, "Transfer-Encoding other than 'chunked'");
    }
    framing = Framing::kChunked;
  }
  return refuse(0, "");
}

// The request line by our own eyes: exactly one space twice, no empty part, a version.
Refusal check_request_line(std::string_view text, const HeadLimits& limits) {
  auto line = text.substr(0, text.find("\r\n"));
  auto first = line.find(' ');
  auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return refuse(400, "request line is not 'METHOD target HTTP/1.1'");
  auto version = line.substr(last + 1);
  if (!version.starts_with("HTTP/")) return refuse(400, "request line without an HTTP version");
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return refuse(505, "only HTTP/1.0 and HTTP/1.1 are understood here");
  auto method = line.substr(0, first);
  if (!is_known_method(method)) return refuse(400, "unknown request method");
  auto target = line.substr(first + 1, last - first - 1);
  if (target.size() > limits.target_bytes) {
    return refuse(414, fmt::format("request target longer than {} bytes", limits.target_bytes));
  }
  if (target.find(' ') != std::string_view::npos) return refuse(400, "space in the request target");
  return refuse(0, "");
}

// Host into `authority`; absolute-form reduced to origin-form, CONNECT's authority-form kept as target.
Refusal settle_target(RequestHead& head) {
  auto hosts = head.headers.count("host");
  if (hosts > 1) return refuse(400, "more than one Host");
  if (hosts == 0 && head.version == 11) return refuse(400, "HTTP/1.1 request without Host");
  if (hosts == 1) {
    head.authority = *head.headers.find("host");
    if (!is_authority(head.authority)) return refuse(400, "Host is not a host name with an optional port");
    head.headers.remove("host");
  }
  if (head.method == "CONNECT") {
    if (!is_authority(head.target)) return refuse(400, "CONNECT needs host:port as its target");
    return refuse(0, "");
  }
  if (head.target == "*") {
    return head.method == "OPTIONS" ? refuse(0, "") : refuse(400, "target '*' is for OPTIONS only");
  }
  auto scheme = head.target.find("://");
  if (head.target.front() != '/' && scheme != std::string::npos) {
    head.scheme = to_lower(std::string_view(head.target).substr(0, scheme));
    if (head.scheme != "http" && head.scheme != "https") return refuse(400, "unknown scheme in the target");
    auto rest = std::string_view(head.target).substr(scheme + 3);
    auto end = std::min(rest.find_first_of("/?"), rest.size());
    auto authority = rest.substr(0, end);
    if (!is_authority(authority)) return refuse(400, "target with a doubtful authority");
    if (head.authority.empty()) head.authority = authority;
    if (!equals_ignore_case(authority, head.authority))
      return refuse(400, "target and Host name different authorities");
    std::string path(rest.substr(end));
    if (path.empty() || path.front() == '?') path.insert(0, "/");
    head.target = std::move(path);
  }
  if (!is_origin_form(head.target)) return refuse(400, "request target with characters that are not allowed");
  return refuse(0, "");
}

Refusal read_expectation(ParsedRequest& out) {
  auto count = out.head.headers.count("expect");
  if (count == 0) return refuse(0, "");
  if (count > 1 || !equals_ignore_case(*out.head.headers.find("expect"), "100-continue")) {
    return refuse(417, "only 'Expect: 100-continue' can be met");
  }
  out.expects_continue = out.head.version == 11 && out.head.has_body;
  out.head.headers.remove("expect");
  return refuse(0, "");
}
}  // namespace

std::variant<std::size_t, Refusal> HeadScanner::scan(std::string_view data) {
  while (looked_ < data.size()) {
    const void* found = std::memchr(data.data() + looked_, '\n', data.size() - looked_);
    if (found == nullptr) {
      looked_ = data.size();
      break;
    }
    auto at = static_cast<std::size_t>(static_cast<const char*>(found) - data.data());
    if (at == line_start_ || data[at - 1] != '\r') return refuse(400, "line feed without a carriage return");
    if (at + 1 > limits_.head_bytes) break;
    bool empty_line = at == line_start_ + 1;
    looked_ = line_start_ = at + 1;
    if (empty_line) return at + 1;
    if (++lines_ > limits_.header_count + 1) {
      return refuse(431, fmt::format("more than {} header fields", limits_.header_count));
    }
  }
  if (lines_ == 0 && data.size() > limits_.target_bytes + 64) {
    return refuse(414, fmt::format("request target longer than {} bytes", limits_.target_bytes));
  }
  if (data.size() > limits_.head_bytes) {
    return refuse(431, fmt::format("message head larger than {} bytes", limits_.head_bytes));
  }
  return std::size_t{0};
}

bool is_known_method(std::string_view method) {
#define ATL_METHOD_NAME(number, name, text) std::string_view(#text),
  constexpr std::string_view kKnown[] = {HTTP_METHOD_MAP(ATL_METHOD_NAME)};
#undef ATL_METHOD_NAME
  return method != "PRI" && std::find(std::begin(kKnown), std::end(kKnown), method) != std::end(kKnown);
}

std::variant<ParsedRequest, Refusal> parse_request_head(std::string_view text, const HeadLimits& limits) {
  if (auto refusal = check_request_line(text, limits); refusal.status != 0) return refusal;
  if (auto refusal = check_lines(text, limits.header_count); refusal.status != 0) return refusal;
  llhttp_t parser;
  Tokens tokens;
  if (auto refusal = tokenize(HTTP_REQUEST, text, parser, tokens); refusal.status != 0) return refusal;
  if (auto refusal = check_connection(tokens.headers); refusal.status != 0) return refusal;

  ParsedRequest out;
  auto& head = out.head;
  head.method = llhttp_method_name(static_cast<llhttp_method_t>(parser.method));
  head.target = std::move(tokens.target);
  head.headers = std::move(tokens.headers);
  head.version = 10 + parser.http_minor;
  if (!text.starts_with(head.method + " " + head.target + " ")) return refuse(400, "malformed request line");
  if (auto refusal = read_framing(head.headers, head.version == 11, out.framing, head.content_length);
      refusal.status != 0) {
    return refusal;
  }
  head.has_body = out.framing == Framing::kChunked || head.content_length.value_or(0) > 0;
  if (!head.has_body) out.framing = Framing::kNone;
  if (head.method == "CONNECT" && head.has_body) return refuse(400, "CONNECT with a body");
  if (auto refusal = settle_target(head); refusal.status != 0) return refusal;
  if (auto refusal = read_expectation(out); refusal.status != 0) return refusal;
  out.keep_alive = head.version == 11 && !head.headers.has_token("connection", "close");
  return out;
}

std::variant<ParsedResponse, Refusal> parse_response_head(std::string_view text, std::string_view method,
                                                          const HeadLimits& limits) {
  if (!text.starts_with("HTTP/1.1 ") && !text.starts_with("HTTP/1.0 ")) {
    return refuse(502, "answer does not start with an HTTP/1 status line");
  }
  if (auto refusal = check_lines(text, limits.header_count); refusal.status != 0) return refusal;
  llhttp_t parser;
  Tokens tokens;
  if (auto refusal = tokenize(HTTP_RESPONSE, text, parser, tokens); refusal.status != 0) return refusal;
  if (auto refusal = check_connection(tokens.headers); refusal.status != 0) return refusal;
  if (parser.status_code < 100 || parser.status_code > 599) return refuse(502, "status code out of range");

  ParsedResponse out;
  out.head.status = parser.status_code;
  out.head.headers = std::move(tokens.headers);
  bool http_1_1 = parser.http_minor == 1;
  std::optional<std::uint64_t> length;
  if (auto refusal = read_framing(out.head.headers, http_1_1, out.framing, length); refusal.status != 0)
    return refusal;
  int status = out.head.status;
  out.keep_alive = http_1_1 && !out.head.headers.has_token("connection", "close");
  bool bodiless = status < 200 || status == 204 || status == 304 || method == "HEAD" ||
                  (method == "CONNECT" && status / 100 == 2);
  if (bodiless) {
    if (out.framing == Framing::kChunked && status != 304 && method != "HEAD") {
      return refuse(502, "Transfer-Encoding in an answer that has no body");
    }
    out.framing = Framing::kNone;
  } else if (out.framing == Framing::kNone) {
    out.framing = Framing::kUntilClose;
    out.keep_alive = false;
  } else if (out.framing == Framing::kLength) {
    out.content_length = *length;
    if (*length == 0) out.framing = Framing::kNone;
  }
  return out;
}

}  // namespace atl::http
