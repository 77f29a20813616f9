// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "net/tls/context.h"
#include "net/tls/tls.h"
#include "net/tls/tls_stream.h"

namespace atl::net {
namespace {

constexpr unsigned char kServerProtocols[] = "\x02h2\x08http/1.1";
constexpr unsigned char kClientProtocols[] = "\x08http/1.1";
constexpr unsigned char kSessionContext[] = "atoll";
// TLS 1.2 with forward secrecy and authenticated ciphers only; TLS 1.3 has nothing else.
constexpr const char* kTls12Ciphers = "ECDHE+AESGCM:ECDHE+CHACHA20";

int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
                    unsigned offered_size, void*) {
  unsigned char* chosen = nullptr;
  int found = SSL_select_next_proto(&chosen, out_size, kServerProtocols, sizeof kServerProtocols - 1, offered,
                                    offered_size);
  if (found != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_NOACK;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

Result<SslCtxPtr> make_context(const SSL_METHOD* method) {
  SslCtxPtr context(SSL_CTX_new(method));
  if (!context) return openssl_error(Code::kInternal, "make a TLS context");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(),
                      SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Without this each idle connection keeps two record buffers of 17 KiB.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  if (SSL_CTX_set_cipher_list(context.get(), kTls12Ciphers) != 1)
    return openssl_error(Code::kInternal, "set TLS ciphers");
  return context;
}

namespace {

class ServerContext final : public TlsServerContext {
 public:
  explicit ServerContext(SslCtxPtr context) : context_(std::move(context)) {}

  Task<Result<Accepted>> accept(StreamPtr stream, std::string prefix, Steady::duration limit) override {
    SslPtr ssl(SSL_new(context_.get()));
    if (!ssl) co_return openssl_error(Code::kInternal, "start TLS");
    SSL_set_accept_state(ssl.get());
    auto executor = co_await async::asio::this_coro::executor;
    auto tls = std::make_unique<TlsStream>(executor, std::move(stream), std::move(ssl), prefix);
    CO_TRY_VOID(co_await tls->handshake(limit));
    auto protocol = tls->protocol();
    co_return Accepted{std::move(tls), std::move(protocol)};
  }

 private:
  SslCtxPtr context_;
};

// Adds all certificates of `pem`: the first as the server's own, the rest as its chain.
Result<void> use_chain(SSL_CTX* context, const std::string& pem) {
  BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  int count = 0;
  for (;; ++count) {
    X509Ptr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (!certificate) break;
    // Both calls take a reference of their own.
    int ok = count == 0 ? SSL_CTX_use_certificate(context, certificate.get())
                        : static_cast<int>(SSL_CTX_add1_chain_cert(context, certificate.get()));
    if (ok != 1) return openssl_error(Code::kCorrupt, "use a certificate chain");
  }
  if (count == 0) return openssl_error(Code::kCorrupt, "read a certificate chain");
  ERR_clear_error();  // the end of the text counts as an error for OpenSSL
  return success();
}

Result<void> trust(SSL_CTX* context, const std::string& ca_pem) {
  if (ca_pem.empty()) {
    if (SSL_CTX_set_default_verify_paths(context) != 1)
      return openssl_error(Code::kInternal, "load trusted certificates");
    return success();
  }
  TRY(X509Ptr authority, read_certificate(ca_pem));
  if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1) {
    return openssl_error(Code::kCorrupt, "trust a certificate authority");
  }
  return success();
}

Result<void> expect_host(SSL* ssl, const std::string& host) {
  unsigned char address[16];
  bool ip = inet_pton(AF_INET, host.c_str(), address) == 1 || inet_pton(AF_INET6, host.c_str(), address) == 1;
  bool ok = ip ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1
               : SSL_set1_host(ssl, host.c_str()) == 1 && SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
  if (!ok) return openssl_error(Code::kInvalid, fmt::format("expect TLS host '{}'", host));
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return success();
}
}  // namespace

Result<std::shared_ptr<TlsServerContext>> make_tls_server(const TlsIdentity& identity) {
  TRY(SslCtxPtr context, make_context(TLS_server_method()));
  TRY(KeyPtr key, read_private_key(identity.private_key));
  TRY_VOID(use_chain(context.get(), identity.certificate_chain));
  if (SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    return openssl_error(Code::kCorrupt, "use a private key: it does not belong to the certificate");
  }
  SSL_CTX_set_alpn_select_cb(context.get(), choose_protocol, nullptr);
  if (SSL_CTX_set_session_id_context(context.get(), kSessionContext, sizeof kSessionContext - 1) != 1) {
    return openssl_error(Code::kInternal, "set the TLS session context");
  }
  // Tickets carry the sessions; a cache of our own would only be memory for a hostile client to fill.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  return std::shared_ptr<TlsServerContext>(std::make_shared<ServerContext>(std::move(context)));
}

Task<Result<StreamPtr>> tls_connect(StreamPtr stream, std::string host, std::string ca_pem,
                                    Steady::duration limit) {
  CO_TRY(SslCtxPtr context, make_context(TLS_client_method()));
  CO_TRY_VOID(trust(context.get(), ca_pem));
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SslPtr ssl(SSL_new(context.get()));
  if (!ssl) co_return openssl_error(Code::kInternal, "start TLS");
  CO_TRY_VOID(expect_host(ssl.get(), host));
  SSL_set_alpn_protos(ssl.get(), kClientProtocols, sizeof kClientProtocols - 1);
  SSL_set_connect_state(ssl.get());
  auto executor = co_await async::asio::this_coro::executor;
  auto tls = std::make_unique<TlsStream>(executor, std::move(stream), std::move(ssl), "");
  CO_TRY_VOID(co_await tls->handshake(limit));
  tls->set_idle_limit(Steady::duration::zero());
  co_return StreamPtr(std::move(tls));
}

}  // namespace atl::net
