// SPDX-License-Identifier: Apache-2.0
//
// The client side of TLS: one context with the trusted roots, and with the sessions that peers let us resume.
#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>
#include <vector>

#include "net/stream.h"

namespace atl::net {

// The machine words (Error::word) of a peer that could not be verified. All have the code kCorrupt.
inline constexpr std::string_view kCertificateExpired = "certificate_expired";  // or not valid yet
inline constexpr std::string_view kCertificateWrongName = "certificate_wrong_name";
inline constexpr std::string_view kCertificateUnknownIssuer = "certificate_unknown_issuer";
inline constexpr std::string_view kCertificateInvalid = "certificate_invalid";  // anything else
// A handshake that failed for another reason: no common version or cipher, an alert, not TLS at all
// (kUnavailable).
inline constexpr std::string_view kTlsFailed = "tls_failed";

// A certificate with its chain and its key, to show to a peer (mutual TLS). Shared between connections, never
// changed. Takes references of its own; the key may live wherever OpenSSL lets it.
class TlsClientIdentity {
 public:
  // kCorrupt when the key does not belong to the certificate.
  static Result<std::shared_ptr<const TlsClientIdentity>> make(X509* certificate,
                                                               const std::vector<X509*>& chain,
                                                               EVP_PKEY* key);
  TlsClientIdentity(const TlsClientIdentity&) = delete;
  TlsClientIdentity& operator=(const TlsClientIdentity&) = delete;
  ~TlsClientIdentity();
  // Makes `ssl` show this certificate.
  Result<void> use(SSL* ssl) const;

 private:
  TlsClientIdentity() = default;
  X509* certificate_ = nullptr;
  std::vector<X509*> chain_;
  EVP_PKEY* key_ = nullptr;
};

// Whether HTTP/2 is offered.
enum class Http2 : bool { kNo, kYes };

// How one connection is made.
struct TlsClientOptions {
  std::string host;         // DNS name (also sent as SNI) or IP address; the certificate must be for it
  Http2 h2 = Http2::kNo;    // offer "h2" before "http/1.1"
  std::string session_key;  // connections of equal host and key may resume each other's sessions; empty: none
  std::shared_ptr<const TlsClientIdentity> identity;  // null: none. Belongs into the session key
  Steady::duration limit = std::chrono::seconds(10);  // of the handshake
};

// Made once, kept by everybody who connects; sessions are kept for at most an hour, and at most 1024 of them.
// Chain, name and time are always verified, and chains end at a trusted root. Use from one loop.
class TlsClientContext {
 public:
  virtual ~TlsClientContext() = default;
  struct Connected {
    StreamPtr stream;
    std::string protocol;  // "h2", "http/1.1" or empty
    bool resumed = false;
  };
  virtual Task<Result<Connected>> connect(StreamPtr stream, TlsClientOptions options) = 0;
};

// Trusts the certificates of `ca_pem` (any number), or those of the system when it is empty. Reads files
// then.
Result<std::shared_ptr<TlsClientContext>> make_tls_client(const std::string& ca_pem);

}  // namespace atl::net
