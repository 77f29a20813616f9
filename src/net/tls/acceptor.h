// SPDX-License-Identifier: Apache-2.0
//
// TlsAcceptor: the server side of TLS where each connection shows a certificate of its own. One context
// serves all of them, so that a new name costs no context.
#pragma once

#include <memory>
#include <string>

#include "net/tls/openssl.h"
#include "net/tls/tls.h"

namespace atl::net {

// A certificate and its private key, shared by the connections that show them.
struct Presented {
  std::shared_ptr<X509> certificate;
  std::shared_ptr<EVP_PKEY> key;
};

// How one connection is accepted.
struct AcceptOptions {
  enum class Protocols : bool { kHttp1, kHttp1And2 };
  Protocols protocols = Protocols::kHttp1And2;  // what ALPN may choose
  // Whom sessions are for, at most 32 bytes: a ticket given to one is a full handshake for all others. Empty:
  // no tickets.
  std::string session_context;
  Steady::duration limit = std::chrono::seconds(10);  // of the handshake
};

// One per process; any number of connections.
class TlsAcceptor {
 public:
  static Result<std::shared_ptr<TlsAcceptor>> make();
  // Runs the handshake on `stream`. `prefix` holds bytes already read from it. A client that does not trust
  // the certificate gives an error with the word kPeerDistrusts.
  Task<Result<TlsServerContext::Accepted>> accept(StreamPtr stream, std::string prefix, Presented presented,
                                                  AcceptOptions options);

 private:
  explicit TlsAcceptor(SslCtxPtr context) : context_(std::move(context)) {}
  Result<SslPtr> prepare(const Presented& presented, const AcceptOptions& options) const;

  SslCtxPtr context_;
};

}  // namespace atl::net
