// SPDX-License-Identifier: Apache-2.0
//
// TLS 1.2 and 1.3 with OpenSSL: server side with ALPN for HTTP/2, client side for the command.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/stream.h"

namespace atl::net {

// Certificate and private key in PEM.
struct TlsIdentity {
  std::string certificate_chain;
  std::string private_key;
};

// The server side: one certificate, any number of connections. Made once, kept by everybody who accepts.
class TlsServerContext {
 public:
  virtual ~TlsServerContext() = default;
  // Runs the handshake on `stream` within `limit`. `prefix` holds bytes already read from it.
  // The negotiated protocol is "h2", "http/1.1" or empty.
  struct Accepted {
    StreamPtr stream;
    std::string protocol;
  };
  virtual Task<Result<Accepted>> accept(StreamPtr stream, std::string prefix, Steady::duration limit) = 0;
};

// kCorrupt when the certificate cannot be read or the key does not belong to it.
Result<std::shared_ptr<TlsServerContext>> make_tls_server(const TlsIdentity& identity);

// Client side: verifies the chain against `ca_pem` (system store when empty) and the name `host`.
Task<Result<StreamPtr>> tls_connect(StreamPtr stream, std::string host, std::string ca_pem,
                                    Steady::duration limit);

// A new certificate authority (ECDSA P-256, ten years), and a server certificate signed by it for `names`
// (DNS names, wildcards allowed, and IP addresses; 825 days).
Result<TlsIdentity> make_certificate_authority(const std::string& common_name);
Result<TlsIdentity> make_server_identity(const TlsIdentity& authority, const std::vector<std::string>& names);

}  // namespace atl::net
