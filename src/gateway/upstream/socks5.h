// SPDX-License-Identifier: Apache-2.0
//
// SOCKS5 towards a proxy that a policy names (RFC 1928, RFC 1929).
#pragma once

#include <string>

#include "base/secret.h"
#include "gateway/names/authority.h"
#include "net/stream.h"

namespace atl::gateway {

using async::Task;

// A proxy through which a sandbox's requests leave.
struct Proxy {
  Authority authority;
  std::string user;  // empty: no authentication
  Secret password;
};

// Asks the proxy at the other end of `stream` to connect to `target`; names are sent as names. Afterwards the
// stream is the target's. kUnavailable with the proxy's reason, word "proxy_failed" or "proxy_refused".
Task<Result<void>> socks5_connect(net::Stream& stream, const Proxy& proxy, Authority target);

// For checks before anything is sent: names and passwords of more than 255 bytes cannot be told to a proxy.
Result<void> check_proxy(const Proxy& proxy);

}  // namespace atl::gateway
