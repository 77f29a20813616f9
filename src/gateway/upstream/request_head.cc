// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/request_head.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/text.h"
#include "gateway/upstream/hop_by_hop.h"
#include "http/trailers.h"

namespace atl::gateway {
namespace {
constexpr std::size_t kWebsocketKeyBytes = 16;

// Fields that say who asks, what is meant, or where a message ends: no hop may be told to drop them, since
// one that does and one that does not would see different requests.
constexpr std::string_view kNeverForOneHop[] = {
    "host",          "content-length", "content-type",   "content-encoding", "content-range", "authorization",
    "cookie",        "origin",         "range",          "accept",           "date",          "expect",
    "cache-control", "x-api-key",      "x-goog-api-key", "api-key",          "forwarded",     "via",
};

bool contains(std::span<const std::string> list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

Error refuse(std::string_view word, std::string message) {
  return Error(Code::kInvalid, std::move(message)).with_word(std::string(word));
}

Result<void> check_connection(const std::vector<std::string>& options,
                              std::span<const std::string> injected) {
  for (const auto& option : options) {
    // `_` is `-` to servers that speak CGI.
    std::string name = option;
    std::replace(name.begin(), name.end(), '_', '-');
    bool fixed =
        std::find(std::begin(kNeverForOneHop), std::end(kNeverForOneHop), name) != std::end(kNeverForOneHop);
    if (fixed || contains(injected, option) || contains(injected, name)) {
      return refuse("connection_refused",
                    fmt::format("Connection names '{}', which is not for one hop only", printable(option)));
    }
  }
  return success();
}

Result<void> check_websocket(const http::RequestHead& request) {
  const auto& headers = request.headers;
  auto key = headers.find("sec-websocket-key");
  auto decoded = key ? base64_decode(*key) : std::nullopt;
  bool ok = request.method == "GET" && request.version == 11 && !request.has_body &&
            headers.count("sec-websocket-key") == 1 && decoded && decoded->size() == kWebsocketKeyBytes &&
            headers.count("sec-websocket-version") == 1 && headers.find("sec-websocket-version") == "13";
  if (!ok) return refuse("websocket_refused", "this is no handshake of a WebSocket (RFC 6455 §4.1)");
  return success();
}

bool wants_websocket(const http::RequestHead& received) {
  return received.headers.has_token("connection", "upgrade") &&
         received.headers.has_token("upgrade", "websocket");
}

// Fields that make an answer hard to read.
void ask_for_plain(http::Headers& headers) {
  headers.set("accept-encoding", "identity");
  headers.remove("range");
  headers.remove("if-range");
  headers.remove("sec-websocket-extensions");
  headers.remove("available-dictionary");
  headers.remove("dictionary-id");
}

std::string host_field(const RequestRules& rules) {
  bool standard = rules.authority.port == usual_port(rules.tls);
  return standard ? rules.authority.host.text() : rules.authority.text();
}

// A segment of one or two dots, also with parameters, which some servers cut off: "..;x".
bool is_dots(std::string_view segment) {
  segment = segment.substr(0, segment.find(';'));
  return segment == "." || segment == "..";
}
}  // namespace

bool is_for_one_hop(std::string_view name) {
  return name == "connection" || name == "keep-alive" || name == "te" || name == "transfer-encoding" ||
         name == "upgrade" || name == "http2-settings" || name.starts_with("proxy-") ||
         name.starts_with("proxy_");
}

std::vector<std::string> connection_options(const http::Headers& headers) {
  std::vector<std::string> out;
  for (const auto& field : headers) {
    if (field.name != "connection") continue;
    for (auto part : split(field.value, ',')) {
      if (auto option = trim(part); !option.empty()) out.push_back(to_lower(option));
    }
  }
  return out;
}

bool is_ambiguous_path(std::string_view path) {
  if (path.find("//") != std::string_view::npos || path.find('\\') != std::string_view::npos) return true;
  for (auto segment : split(path, '/')) {
    if (is_dots(segment)) return true;
  }
  for (auto at = path.find('%'); at != std::string_view::npos; at = path.find('%', at + 1)) {
    auto code = to_lower(path.substr(at + 1, 2));
    // '/', '\', '.', '%', and NUL; and what is no code at all.
    // What is encoded twice is decoded twice by some.
    bool twice = code == "25";
    if (twice) code = to_lower(path.substr(std::min(at + 3, path.size()), 2));
    if (code == "2f" || code == "5c" || code == "2e" || code == "25" || code == "00") return true;
    if (twice) continue;
    if (code.size() < 2 || code.find_first_not_of("0123456789abcdef") != std::string::npos) return true;
  }
  return false;
}

Result<http::RequestHead> prepare_request(const http::RequestHead& received, const RequestRules& rules) {
  if (received.method == "TRACE" || received.method == "TRACK") {
    return refuse(
        "method_refused",
        fmt::format("{} would show the request as it left, with what was put into it", received.method));
  }
  // Some servers cut parameters off before they look whose path it is: "/admin;x/users".
  bool ambiguous = is_ambiguous_path(received.path()) || received.path().find(';') != std::string_view::npos;
  if (!rules.as_spelled && ambiguous)
    return refuse("path_refused", "the path is one that servers read in different ways");
  auto options = connection_options(received.headers);
  TRY_VOID(check_connection(options, rules.injected));

  http::RequestHead out;
  out.method = received.method;
  out.target = received.target;
  out.authority = host_field(rules);
  out.secure = rules.tls;
  out.peer = received.peer;
  out.content_length = received.content_length;
  out.has_body = received.has_body;
  for (const auto& field : received.headers) {
    if (is_for_one_hop(field.name) || contains(options, field.name)) continue;
    if (field.name == "host" || field.name == "expect" || field.name == "content-length") continue;
    out.headers.add(field.name, field.value);
  }
  // The one hop that counts here is the whole way: gRPC fails without its trailers.
  if (received.headers.has_token("te", "trailers")) out.headers.add("te", "trailers");
  if (wants_websocket(received)) {
    TRY_VOID(check_websocket(received));
    out.headers.add("connection", "Upgrade");
    out.headers.add("upgrade", "websocket");
  }
  if (rules.read_answer) ask_for_plain(out.headers);
  return out;
}

int refusal_status(const Error& error) {
  return error.word() == "method_refused" ? 405 : http_status(error.code());
}

bool is_websocket(const http::RequestHead& request) { return request.headers.find("upgrade") == "websocket"; }

http::Headers prepare_trailers(const http::Headers& received, std::span<const std::string> injected) {
  http::Headers out;
  for (const auto& field : received) {
    std::string name = field.name;
    std::replace(name.begin(), name.end(), '_', '-');
    if (!http::may_be_trailer(field.name) || is_for_one_hop(name)) continue;
    if (!contains(injected, name) && !contains(injected, field.name)) out.add(field.name, field.value);
  }
  return out;
}

}  // namespace atl::gateway
