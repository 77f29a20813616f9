// SPDX-License-Identifier: Apache-2.0
#include "net/tls/context.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "net/tls/tls.h"
#include "net/tls/tls_stream.h"

namespace atl::net {
namespace {

constexpr unsigned char kServerProtocols[] = "\x02h2\x08http/1.1";
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

}  // namespace atl::net
