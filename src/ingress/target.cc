// SPDX-License-Identifier: Apache-2.0
#include "ingress/target.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "model/sandbox.h"

namespace atl::ingress {
namespace {

constexpr std::size_t kMaxIdLength = 64;
constexpr int kMaxDecodeRounds = 4;
constexpr std::array<std::string_view, 7> kInternalSegments = {"activity", "init",     "freeze", "unfreeze",
                                                               "collapse", "fsfreeze", "fsthaw"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_id_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '-' || c == '_';
}

// "<id>" or "<id>-<clientID>" -> "<id>". Other well-formed names stay whole: they name no sandbox and get
// 502.
std::optional<std::string> parse_id(std::string_view text) {
  if (text.empty() || text.size() > kMaxIdLength || !std::all_of(text.begin(), text.end(), is_id_char))
    return std::nullopt;
  auto head = text.substr(0, text.find('-'));
  return std::string(model::valid_sandbox_id(head) ? head : text);
}

struct Host {
  std::string name;  // lower case, without port and trailing dot; brackets kept for IPv6
  bool ok = false;
};

Host parse_host(std::string_view authority) {
  std::size_t colon;
  if (authority.starts_with('[')) {
    auto close = authority.find(']');
    if (close == std::string_view::npos) return {};
    colon = close + 1;
    if (colon < authority.size() && authority[colon] != ':') return {};
  } else {
    colon = authority.find(':');
  }
  if (colon < authority.size() && !parse_port(authority.substr(colon + 1))) return {};
  auto name = authority.substr(0, colon);
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.empty()) return {};
  return {to_lower(name), true};
}

// A name whose last label is a number is an address or a try at one (WHATWG URL, "ends in a number").
bool is_address(std::string_view name) {
  if (name.starts_with('[')) return true;
  auto last = name.substr(name.rfind('.') == std::string_view::npos ? 0 : name.rfind('.') + 1);
  return !last.empty() && std::all_of(last.begin(), last.end(), is_digit);
}

Routing from_label(std::string_view label) {
  auto dash = label.find('-');
  if (dash == std::string_view::npos) return BadTarget{"the host must be {port}-{sandbox id}.{domain}"};
  auto port = parse_port(label.substr(0, dash));
  if (!port) return BadTarget{"the host names no valid port: it must be a plain number from 1 to 65535"};
  auto id = parse_id(label.substr(dash + 1));
  if (!id) return BadTarget{"the host names no valid sandbox id"};
  return Target{*id, *port};
}

Routing from_headers(const http::RequestHead& request) {
  if (request.headers.count("e2b-sandbox-id") > 1 || request.headers.count("e2b-sandbox-port") > 1) {
    return BadTarget{"the headers E2b-Sandbox-Id and E2b-Sandbox-Port must not be repeated"};
  }
  auto id = parse_id(request.headers.find("e2b-sandbox-id").value_or(""));
  if (!id) return BadTarget{"the header E2b-Sandbox-Id names no valid sandbox id"};
  auto port = parse_port(request.headers.find("e2b-sandbox-port").value_or(""));
  if (!port) return BadTarget{"the header E2b-Sandbox-Port must be a plain number from 1 to 65535"};
  return Target{*id, *port};
}

// GET, HEAD or POST /files with a signature; NotIngress for anything else.
Routing from_signature(const http::RequestHead& request) {
  if (request.path() != "/files") return NotIngress{};
  auto query = http::parse_query(request.query());
  if (!query) return NotIngress{};
  auto signature = http::query_value(*query, "signature");
  if (!signature) return NotIngress{};
  SignedFile file;
  file.operation = request.method == "GET" || request.method == "HEAD" ? "read" : "write";
  file.path = http::query_value(*query, "path").value_or("");
  file.user = http::query_value(*query, "username").value_or("");
  file.expiration = http::query_value(*query, "signature_expiration").value_or("");
  file.signature = std::move(*signature);
  return file;
}

std::vector<std::string> normal_segments(std::string decoded) {
  std::replace(decoded.begin(), decoded.end(), '\\', '/');
  std::vector<std::string> kept;
  for (auto part : split(decoded, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (!kept.empty()) kept.pop_back();
      continue;
    }
    kept.emplace_back(part);
  }
  return kept;
}

bool names_internal(const std::string& decoded) {
  auto segments = normal_segments(decoded);
  if (segments.empty()) return false;
  auto first = to_lower(trim(std::string_view(segments.front()).substr(0, segments.front().find(';'))));
  return std::find(kInternalSegments.begin(), kInternalSegments.end(), first) != kInternalSegments.end();
}

}  // namespace

std::optional<std::uint16_t> parse_port(std::string_view text) {
  if (text.empty() || text.size() > 5 || text.front() == '0' ||
      !std::all_of(text.begin(), text.end(), is_digit)) {
    return std::nullopt;
  }
  return parse_number<std::uint16_t>(text);
}

Routing route_request(const http::RequestHead& request, std::string_view domain) {
  bool has_id = request.headers.count("e2b-sandbox-id") > 0;
  if (request.authority.empty()) return NotIngress{};
  auto host = parse_host(request.authority);
  if (!host.ok) return BadTarget{"the Host is malformed"};
  if (host.name.starts_with("sandbox.")) return from_headers(request);
  if (host.name == "localhost" || is_address(host.name))
    return has_id ? from_headers(request) : from_signature(request);
  std::string_view name = host.name;
  if (!name.ends_with(domain) || name.size() < domain.size() + 2) return NotIngress{};
  auto label = name.substr(0, name.size() - domain.size());
  if (!label.ends_with('.')) return NotIngress{};
  label.remove_suffix(1);
  if (label == "api") return NotIngress{};
  if (label.find('.') != std::string_view::npos)
    return BadTarget{"the host must be {port}-{sandbox id}.{domain}"};
  return from_label(label);
}

std::optional<std::string> normal_guest_path(std::string_view path) {
  auto decoded = http::percent_decode(path);
  if (!decoded) return std::nullopt;
  std::string out;
  for (const auto& segment : normal_segments(std::move(*decoded))) {
    out += '/';
    out += http::percent_encode(segment);
  }
  return out.empty() ? std::string("/") : out;
}

bool is_internal_path(std::string_view path) {
  std::string text(path);
  for (int round = 0; round < kMaxDecodeRounds; ++round) {
    if (names_internal(text)) return true;
    auto decoded = http::percent_decode(text);
    if (!decoded || *decoded == text) return false;
    text = std::move(*decoded);
  }
  return true;  // nothing honest is encoded so often
}

}  // namespace atl::ingress
