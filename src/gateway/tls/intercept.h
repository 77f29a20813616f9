// SPDX-License-Identifier: Apache-2.0
//
// Interceptor: the gateway's side of a TLS connection out of a sandbox that it must read.
#pragma once

#include <memory>
#include <string>

#include "gateway/tls/authority.h"

namespace atl::gateway {

// What is known before the handshake. `host` is the one authority of the connection (its SNI and all other
// places agree on it), canonical.
struct InterceptRequest {
  std::shared_ptr<CertificateAuthority> authority;
  std::string host;
  // The sandbox with its generation, "sbx/7": a ticket of another one, or for another host, is not taken.
  std::string client;
  net::AcceptOptions::Protocols protocols = net::AcceptOptions::Protocols::kHttp1And2;
  Steady::duration limit = std::chrono::seconds(10);
};

// One per process. Use from one loop.
class Interceptor {
 public:
  explicit Interceptor(const Clock& clock) : clock_(clock) {}
  // Must succeed before accept().
  Result<void> prepare();
  // The handshake on `stream`, of which `hello` has been read already. The word of an error is
  // net::kPeerDistrusts when the program inside does not trust the sandbox's authority.
  net::Task<Result<net::TlsServerContext::Accepted>> accept(net::StreamPtr stream, std::string hello,
                                                            InterceptRequest request);

 private:
  const Clock& clock_;
  std::shared_ptr<net::TlsAcceptor> acceptor_;
};

}  // namespace atl::gateway
