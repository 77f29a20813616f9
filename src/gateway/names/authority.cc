// SPDX-License-Identifier: Apache-2.0
#include "gateway/names/authority.h"

#include <array>
#include <vector>

#include "base/text.h"

namespace atl::gateway {
namespace {

struct Parts {
  std::string_view host;
  std::optional<std::string_view> port;
};

Parts take_apart(std::string_view text) {
  auto bracket = text.rfind(']');
  auto colon = text.rfind(':');
  bool has_port = colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  if (!has_port) return {text, std::nullopt};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

Result<std::uint16_t> parse_port(std::string_view text) {
  auto port = text.starts_with('0') ? std::nullopt : parse_number<std::uint16_t>(text);
  if (!port)
    return make_error(Code::kInvalid, "'{}' is not a port from 1 to 65535", printable(text.substr(0, 32)))
        .with_word("invalid_port");
  return *port;
}

// What one place says.
struct Claim {
  std::string_view place;
  Host host;
  std::optional<std::uint16_t> port;

  std::string text() const { return port ? Authority{host, *port}.text() : host.text(); }
};

Result<Claim> read_claim(std::string_view place, std::string_view text) {
  Parts parts = take_apart(text);
  auto host = parse_host(parts.host);
  if (!host.ok()) return std::move(host).error().context(place);
  Claim claim{place, *std::move(host), std::nullopt};
  if (!parts.port) return claim;
  auto port = parse_port(*parts.port);
  if (!port.ok()) return std::move(port).error().context(place);
  claim.port = *port;
  return claim;
}

Result<std::vector<Claim>> read_claims(const AuthorityClaims& claims) {
  std::vector<Claim> out;
  if (claims.dialled) out.push_back({"the connection", claims.dialled->host, claims.dialled->port});
  if (claims.sni) {
    auto host = parse_host(*claims.sni);  // a server name has no port
    if (!host.ok()) return std::move(host).error().context("the TLS server name");
    out.push_back({"the TLS server name", *std::move(host), std::nullopt});
  }
  if (claims.absolute) {
    TRY(Claim claim, read_claim("the request target", *claims.absolute));
    out.push_back(std::move(claim));
  }
  if (claims.host) {
    TRY(Claim claim, read_claim("the Host field", *claims.host));
    out.push_back(std::move(claim));
  }
  return out;
}

Error disagree(const Claim& a, const Claim& b) {
  return make_error(Code::kDenied, "{} is for {}, but {} says {}", a.place, a.text(), b.place, b.text())
      .with_word("misdirected")
      .with_hint("connect to the host by its name, and name the same one everywhere");
}

}  // namespace

std::string Authority::text() const { return fmt::format("{}:{}", host.text(), port); }

Result<Authority> parse_authority(std::string_view text, std::uint16_t default_port) {
  Parts parts = take_apart(text);
  TRY(Host host, parse_host(parts.host));
  std::uint16_t port = default_port;
  if (parts.port || default_port == 0) {
    TRY(port, parse_port(parts.port.value_or("")));
  }
  return Authority{std::move(host), port};
}

Result<Authority> agree(const AuthorityClaims& claims) {
  TRY(std::vector<Claim> all, read_claims(claims));
  if (all.empty()) {
    return make_error(Code::kInvalid, "the request names no host").with_word("invalid_host");
  }
  const Claim* with_port = nullptr;
  for (const Claim& claim : all) {
    if (claim.host != all.front().host) return disagree(all.front(), claim);
    if (!claim.port) continue;
    if (with_port && *with_port->port != *claim.port) return disagree(*with_port, claim);
    if (!with_port) with_port = &claim;
  }
  std::uint16_t port = with_port ? *with_port->port : claims.default_port;
  if (port == 0) return make_error(Code::kInvalid, "the request names no port").with_word("invalid_port");
  return Authority{std::move(all.front().host), port};
}

}  // namespace atl::gateway
