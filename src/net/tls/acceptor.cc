// SPDX-License-Identifier: Apache-2.0
#include "net/tls/acceptor.h"

#include <string_view>

#include "net/tls/context.h"
#include "net/tls/tls_stream.h"

namespace atl::net {
namespace {

constexpr std::string_view kHttp1("\x08http/1.1");
constexpr std::string_view kHttp1And2("\x02h2\x08http/1.1");
constexpr std::size_t kTickets = 1;  // OpenSSL gives two, which no client needs

int choose(SSL* ssl, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
           unsigned offered_size, void*) {
  const auto& ours = *static_cast<const std::string_view*>(SSL_get_app_data(ssl));
  unsigned char* chosen = nullptr;
  int found = SSL_select_next_proto(&chosen, out_size, reinterpret_cast<const unsigned char*>(ours.data()),
                                    static_cast<unsigned>(ours.size()), offered, offered_size);
  if (found != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_NOACK;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

Result<std::shared_ptr<TlsAcceptor>> TlsAcceptor::make() {
  TRY(SslCtxPtr context, make_context(TLS_server_method()));
  SSL_CTX_set_alpn_select_cb(context.get(), choose, nullptr);
  // Tickets carry the sessions; a cache of our own would only be memory for a hostile client to fill.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  return std::shared_ptr<TlsAcceptor>(new TlsAcceptor(std::move(context)));
}

Result<SslPtr> TlsAcceptor::prepare(const Presented& presented, const AcceptOptions& options) const {
  SslPtr ssl(SSL_new(context_.get()));
  if (!ssl) return openssl_error(Code::kInternal, "start TLS");
  const bool both = options.protocols == AcceptOptions::Protocols::kHttp1And2;
  // OpenSSL gives the application one pointer of type void*; nobody writes through this one.
  SSL_set_app_data(ssl.get(), const_cast<std::string_view*>(both ? &kHttp1And2 : &kHttp1));
  const auto& context = options.session_context;
  bool ok = SSL_use_certificate(ssl.get(), presented.certificate.get()) == 1 &&
            SSL_use_PrivateKey(ssl.get(), presented.key.get()) == 1 &&
            SSL_set_session_id_context(ssl.get(), reinterpret_cast<const unsigned char*>(context.data()),
                                       static_cast<unsigned>(context.size())) == 1 &&
            SSL_set_num_tickets(ssl.get(), context.empty() ? 0 : kTickets) == 1;
  if (!ok) return openssl_error(Code::kInternal, "prepare a TLS connection");
  if (context.empty()) SSL_set_options(ssl.get(), SSL_OP_NO_TICKET);
  SSL_set_accept_state(ssl.get());
  return ssl;
}

Task<Result<TlsServerContext::Accepted>> TlsAcceptor::accept(StreamPtr stream, std::string prefix,
                                                             Presented presented, AcceptOptions options) {
  CO_TRY(SslPtr ssl, prepare(presented, options));
  auto executor = co_await async::asio::this_coro::executor;
  auto tls = std::make_unique<TlsStream>(executor, std::move(stream), std::move(ssl), prefix);
  CO_TRY_VOID(co_await tls->handshake(options.limit));
  tls->set_idle_limit(Steady::duration::zero());
  auto protocol = tls->protocol();
  co_return TlsServerContext::Accepted{std::move(tls), std::move(protocol)};
}

}  // namespace atl::net
