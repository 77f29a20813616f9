// SPDX-License-Identifier: Apache-2.0
#include "ingress/headers.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "ingress/target.h"
#include "model/guest_boot.h"

namespace atl::ingress {
namespace {

// Fields of one connection (RFC 9110 §7.6.1) and of the message's framing. The writers set their own.
constexpr std::array<std::string_view, 11> kConnectionFields = {"connection",
                                                                "keep-alive",
                                                                "proxy-authenticate",
                                                                "proxy-authorization",
                                                                "proxy-connection",
                                                                "te",
                                                                "trailer",
                                                                "upgrade",
                                                                "transfer-encoding",
                                                                "http2-settings",
                                                                "host"};

bool is_connection_field(std::string_view name) {
  return std::find(kConnectionFields.begin(), kConnectionFields.end(), name) != kConnectionFields.end();
}

// Fields that belong to Atoll, or that tell who the client is and are therefore only believed from Atoll
// itself.
bool is_reserved_field(std::string_view name) {
  return name.starts_with("e2b-sandbox-") || name == "e2b-traffic-access-token" ||
         name.starts_with("x-atoll-") || name.starts_with("x-forwarded-") || name == "forwarded" ||
         name == "x-real-ip" || name == "expect" || name == "content-length";
}

std::string client_address(std::string_view peer) {
  auto colon = peer.rfind(':');
  auto address = peer.substr(0, colon);
  if (address.starts_with('[') && address.ends_with(']')) address = address.substr(1, address.size() - 2);
  return std::string(address);
}

std::string masked_host(std::string_view mask, std::uint16_t port) {
  constexpr std::string_view kPlaceholder = "${PORT}";
  std::string out(mask);
  for (auto at = out.find(kPlaceholder); at != std::string::npos; at = out.find(kPlaceholder, at)) {
    out.replace(at, kPlaceholder.size(), std::to_string(port));
  }
  return out;
}

// HTTP/2 may split the cookie; HTTP/1.1 may not (RFC 9113 §8.2.3).
void copy_fields(const http::RequestHead& request, http::Headers& out) {
  std::string cookie;
  for (const auto& field : request.headers) {
    if (is_connection_field(field.name) || is_reserved_field(field.name)) continue;
    if (request.headers.has_token("connection", field.name)) continue;
    if (field.name == "cookie") {
      cookie += cookie.empty() ? field.value : "; " + field.value;
      continue;
    }
    out.add(field.name, field.value);
  }
  if (!cookie.empty()) out.add("cookie", cookie);
}

// Without its Domain attribute a cookie stays with the one host that set it: a sandbox cannot plant cookies
// for its neighbours under the same domain.
std::string host_only_cookie(std::string_view value) {
  std::string out;
  for (auto part : split(value, ';')) {
    auto name = trim(part.substr(0, part.find('=')));
    if (!out.empty() && equals_ignore_case(name, "domain")) continue;
    if (!out.empty()) out += ';';
    out += part;
  }
  return out;
}

}  // namespace

std::string upgrade_wanted(const http::RequestHead& request, std::uint16_t port) {
  if (port == model::kGuestPort || request.version != 11 || request.has_body) return {};
  if (!request.headers.has_token("connection", "upgrade") || request.headers.count("upgrade") != 1) return {};
  auto protocol = *request.headers.find("upgrade");
  if (protocol.find(',') != std::string_view::npos || equals_ignore_case(trim(protocol), "h2c")) return {};
  return std::string(trim(protocol));
}

std::optional<http::RequestHead> guest_request(const http::RequestHead& request, const control::Route& route,
                                               std::uint16_t port) {
  http::RequestHead out;
  out.method = request.method;
  out.target = request.target;
  out.authority = request.authority;
  out.content_length = request.content_length;
  out.has_body = request.has_body;
  copy_fields(request, out.headers);
  if (port == model::kGuestPort) {
    auto path = normal_guest_path(request.path());
    if (!path) return std::nullopt;
    out.target = std::move(*path);
    if (request.target.find('?') != std::string::npos) out.target.append("?").append(request.query());
    return out;
  }
  if (!route.mask_request_host.empty()) out.authority = masked_host(route.mask_request_host, port);
  out.headers.add("x-forwarded-for", client_address(request.peer));
  out.headers.add("x-forwarded-host", request.authority);
  out.headers.add("x-forwarded-proto", request.secure ? "https" : "http");
  if (auto protocol = upgrade_wanted(request, port); !protocol.empty()) {
    out.headers.add("connection", "upgrade");
    out.headers.add("upgrade", protocol);
  }
  return out;
}

http::ResponseHead client_response(const http::ResponseHead& answer, std::uint16_t port) {
  http::ResponseHead out;
  out.status = answer.status;
  for (const auto& field : answer.headers) {
    if (is_connection_field(field.name) || field.name.starts_with("x-atoll-")) continue;
    if (answer.headers.has_token("connection", field.name)) continue;
    bool cookie = field.name == "set-cookie" && port != model::kGuestPort;
    out.headers.add(field.name, cookie ? host_only_cookie(field.value) : field.value);
  }
  if (answer.status == 101) {
    out.headers.add("connection", "upgrade");
    if (auto protocol = answer.headers.find("upgrade")) out.headers.add("upgrade", std::string(*protocol));
  }
  return out;
}

}  // namespace atl::ingress
