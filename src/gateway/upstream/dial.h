// SPDX-License-Identifier: Apache-2.0
//
// Dial: from an authority to a connected stream, by an address that was checked, and TLS on top.
#pragma once

#include <optional>

#include "base/fair_share.h"
#include "gateway/upstream/address_guard.h"
#include "gateway/upstream/socks5.h"
#include "net/tls/client.h"

namespace atl::gateway {

// How long each part of a request may take. Zero: no limit.
struct Timeouts {
  Steady::duration connect = std::chrono::seconds(5);  // all addresses together, without resolving
  Steady::duration tls = std::chrono::seconds(10);
  Steady::duration first_byte = std::chrono::seconds(600);  // from the request's end to the answer's head
  Steady::duration idle = std::chrono::seconds(300);        // between bytes of bodies
  Steady::duration total = std::chrono::seconds(3600);
};

// Whom to reach and how. What is put together here was decided before: by the policy.
struct Route {
  Authority authority;
  bool tls = true;
  bool h2 = true;          // may use HTTP/2 where the peer has it
  std::string sandbox;     // id and generation; connections never serve two of them
  std::string credential;  // id and version of what is injected; empty: nothing
  // Of one request and not of its connection: asked right before its head goes out, and must be good as long
  // as its exchange; empty: yes.
  std::function<bool()> may_send;
  AddressCheck check;                                         // never empty
  std::shared_ptr<const net::TlsClientIdentity> certificate;  // null: none. Belongs to `credential`
  std::shared_ptr<net::TlsClientContext> trust;               // null: the gateway's own
  std::shared_ptr<const Proxy> proxy;                         // null: directly
  AddressCheck proxy_check;  // of the proxy's own address; never empty with one
  std::optional<FairShare::User> memory =
      {};  // whose what is under way takes; nullopt: each connection's own
  Timeouts limits;
};

// At most so many addresses of one name are tried.
inline constexpr std::size_t kMaxTries = 4;

// TCP, directly or through the route's proxy. Directly: resolve, check, connect to what was checked. Through
// a proxy: its address is resolved and checked; the target's name goes to the proxy, and only a target that
// is itself an address is checked. Errors keep their words ("address_denied", "name_not_found", ...); a
// connection that does not come about has the word "connect_failed".
Task<Result<net::StreamPtr>> dial(std::shared_ptr<Resolver> resolver, Route route);

// TLS on `stream` with the route's name, certificate and trust, or the gateway's.
Task<Result<net::TlsClientContext::Connected>> dial_tls(std::shared_ptr<net::TlsClientContext> context,
                                                        net::StreamPtr stream, Route route, net::Http2 h2);

}  // namespace atl::gateway
