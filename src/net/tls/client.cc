// SPDX-License-Identifier: Apache-2.0
#include "net/tls/client.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <unistd.h>

#include "net/tls/context.h"
#include "net/tls/sessions.h"
#include "net/tls/tls.h"
#include "net/tls/tls_stream.h"

namespace atl::net {
namespace {
constexpr unsigned char kHttp1[] = "\x08http/1.1";
constexpr unsigned char kHttp2First[] = "\x02h2\x08http/1.1";
// Debian keeps all roots in one file beside the folder that OpenSSL looks into. Read at once, later
// handshakes need no file any more.
constexpr const char* kBundle = "/etc/ssl/certs/ca-certificates.crt";

bool is_address(const std::string& host) {
  unsigned char address[16];
  return inet_pton(AF_INET, host.c_str(), address) == 1 || inet_pton(AF_INET6, host.c_str(), address) == 1;
}

Result<void> trust_system(SSL_CTX* context) {
  bool ok = SSL_CTX_set_default_verify_paths(context) == 1;
  if (ok && access(kBundle, R_OK) == 0) ok = SSL_CTX_load_verify_file(context, kBundle) == 1;
  if (!ok) return openssl_error(Code::kInternal, "load the certificates that this system trusts");
  return success();
}

Result<void> trust_pem(SSL_CTX* context, const std::string& pem) {
  BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  int count = 0;
  for (;; ++count) {
    X509Ptr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (!certificate) break;
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate.get()) != 1)
      return openssl_error(Code::kCorrupt, "trust a certificate authority");
  }
  if (count == 0) return openssl_error(Code::kCorrupt, "read the certificates to trust");
  ERR_clear_error();  // the end of the text counts as an error for OpenSSL
  return success();
}

Result<void> expect_host(SSL* ssl, const std::string& host) {
  bool ok = is_address(host)
                ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1
                : SSL_set1_host(ssl, host.c_str()) == 1 && SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
  if (!ok) return openssl_error(Code::kInvalid, fmt::format("expect TLS host '{}'", host));
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  return success();
}

std::string_view word_of(long verdict) {
  switch (verdict) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID: return kCertificateExpired;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: return kCertificateWrongName;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN: return kCertificateUnknownIssuer;
    default: return kCertificateInvalid;
  }
}

Error explain(Error error, const std::string& host, long verdict) {
  if (verdict != X509_V_OK) {
    return make_error(Code::kCorrupt, "the certificate of {} is not accepted: {}", host,
                      X509_verify_cert_error_string(verdict))
        .with_word(std::string(word_of(verdict)));
  }
  if (error.code() == Code::kDeadline) return error;
  return std::move(error).with_word(std::string(kTlsFailed));
}

class ClientContext final : public TlsClientContext {
 public:
  explicit ClientContext(SslCtxPtr context) : context_(std::move(context)) {}

  Task<Result<Connected>> connect(StreamPtr stream, TlsClientOptions options) override {
    CO_TRY(SslPtr ssl, prepare(options));
    auto executor = co_await async::asio::this_coro::executor;
    auto tls = std::make_unique<TlsStream>(executor, std::move(stream), std::move(ssl), "");
    auto done = co_await tls->handshake(options.limit);
    if (!done.ok()) co_return explain(std::move(done).error(), options.host, tls->verify_result());
    tls->set_idle_limit(Steady::duration::zero());
    Connected out;
    out.protocol = tls->protocol();
    out.resumed = tls->resumed();
    out.stream = std::move(tls);
    co_return out;
  }

 private:
  Result<SslPtr> prepare(const TlsClientOptions& options) {
    SslPtr ssl(SSL_new(context_.get()));
    if (!ssl) return openssl_error(Code::kInternal, "start TLS");
    TRY_VOID(expect_host(ssl.get(), options.host));
    bool h2 = options.h2 == Http2::kYes;
    // Gives 0 for success, unlike all others.
    if (SSL_set_alpn_protos(ssl.get(), h2 ? kHttp2First : kHttp1,
                            static_cast<unsigned>((h2 ? sizeof kHttp2First : sizeof kHttp1) - 1)) != 0) {
      return openssl_error(Code::kInternal, "offer protocols in TLS");
    }
    if (options.identity) TRY_VOID(options.identity->use(ssl.get()));
    // A resumed session is not verified again: whatever was verified belongs into the key.
    if (!options.session_key.empty()) {
      auto key = fmt::format("{}\n{}\n{}", options.host, h2 ? 1 : 0, options.session_key);
      if (auto session = sessions_->take(key, Steady::now())) SSL_set_session(ssl.get(), session.get());
      TlsSessions::collect(ssl.get(), sessions_, std::move(key));
    }
    SSL_set_connect_state(ssl.get());
    return ssl;
  }

  SslCtxPtr context_;
  std::shared_ptr<TlsSessions> sessions_ = std::make_shared<TlsSessions>();
};
}  // namespace

Result<std::shared_ptr<const TlsClientIdentity>> TlsClientIdentity::make(X509* certificate,
                                                                         const std::vector<X509*>& chain,
                                                                         EVP_PKEY* key) {
  if (certificate == nullptr || key == nullptr || X509_check_private_key(certificate, key) != 1)
    return openssl_error(Code::kCorrupt, "use a client certificate: its key does not belong to it");
  std::shared_ptr<TlsClientIdentity> made(new TlsClientIdentity);
  X509_up_ref(certificate);
  made->certificate_ = certificate;
  EVP_PKEY_up_ref(key);
  made->key_ = key;
  for (auto* link : chain) {
    X509_up_ref(link);
    made->chain_.push_back(link);
  }
  return std::shared_ptr<const TlsClientIdentity>(std::move(made));
}

TlsClientIdentity::~TlsClientIdentity() {
  X509_free(certificate_);
  EVP_PKEY_free(key_);
  for (auto* link : chain_) X509_free(link);
}

Result<void> TlsClientIdentity::use(SSL* ssl) const {
  bool ok = SSL_use_certificate(ssl, certificate_) == 1 && SSL_use_PrivateKey(ssl, key_) == 1;
  for (auto* link : chain_) ok = ok && SSL_add1_chain_cert(ssl, link) == 1;
  if (!ok) return openssl_error(Code::kInternal, "use a client certificate");
  return success();
}

Result<std::shared_ptr<TlsClientContext>> make_tls_client(const std::string& ca_pem) {
  TRY(SslCtxPtr context, make_context(TLS_client_method()));
  TRY_VOID(ca_pem.empty() ? trust_system(context.get()) : trust_pem(context.get(), ca_pem));
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  TlsSessions::enable(context.get());
  return std::shared_ptr<TlsClientContext>(std::make_shared<ClientContext>(std::move(context)));
}

Task<Result<StreamPtr>> tls_connect(StreamPtr stream, std::string host, std::string ca_pem,
                                    Steady::duration limit) {
  CO_TRY(auto context, make_tls_client(ca_pem));
  TlsClientOptions options;
  options.host = std::move(host);
  options.limit = limit;
  CO_TRY(auto connected, co_await context->connect(std::move(stream), std::move(options)));
  co_return std::move(connected.stream);
}

}  // namespace atl::net
