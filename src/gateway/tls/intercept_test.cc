// SPDX-License-Identifier: Apache-2.0
#include "gateway/tls/intercept.h"

#include <gtest/gtest.h>

#include "net/tcp.h"
#include "net/tls/context.h"
#include "net/tls/tls_stream.h"

namespace atl::gateway {
namespace {

namespace asio = async::asio;
using SessionPtr = std::unique_ptr<SSL_SESSION, net::OpensslFree<SSL_SESSION_free>>;
using Protocols = net::AcceptOptions::Protocols;

std::shared_ptr<CertificateAuthority> authority(const std::string& sandbox) {
  auto made = CertificateAuthority::derive(std::string(32, 'r'), sandbox, system_clock().now());
  EXPECT_TRUE(made.ok());
  return *made;
}

struct Client {
  std::string trusted_pem;
  std::string host = "api.example.com";
  std::string offers = "\x02h2\x08http/1.1";
  int newest = TLS1_3_VERSION;
  SSL_SESSION* session = nullptr;
};

struct Outcome {
  std::optional<Error> server_error;
  std::optional<Error> client_error;
  std::string protocol;
  std::string seen;
  bool resumed = false;
  SessionPtr session;
};

async::Task<> serve(Interceptor& interceptor, net::StreamPtr stream, InterceptRequest request, Outcome& out) {
  // The first bytes were read to judge them, as the gateway does.
  std::string hello(100, '\0');
  auto count = co_await stream->read_some(hello);
  EXPECT_TRUE(count.ok());
  hello.resize(*count);
  auto accepted = co_await interceptor.accept(std::move(stream), std::move(hello), std::move(request));
  if (!accepted.ok()) {
    out.server_error = accepted.error();
    co_return;
  }
  out.protocol = accepted->protocol;
  EXPECT_TRUE((co_await accepted->stream->write_all("hello")).ok());
  EXPECT_TRUE((co_await accepted->stream->shutdown_write()).ok());
}

async::Task<> connect(net::StreamPtr stream, SSL_CTX* context, const Client& client, Outcome& out) {
  net::SslPtr ssl(SSL_new(context));
  SSL* raw = ssl.get();
  SSL_set1_host(raw, client.host.c_str());
  SSL_set_tlsext_host_name(raw, client.host.c_str());
  SSL_set_alpn_protos(raw, reinterpret_cast<const unsigned char*>(client.offers.data()),
                      static_cast<unsigned>(client.offers.size()));
  SSL_set_max_proto_version(raw, client.newest);
  if (client.session != nullptr) SSL_set_session(raw, client.session);
  SSL_set_connect_state(raw);
  auto executor = co_await asio::this_coro::executor;
  net::TlsStream tls(executor, std::move(stream), std::move(ssl), "");
  auto done = co_await tls.handshake(std::chrono::seconds(30));
  if (!done.ok()) {
    out.client_error = done.error();
    co_return;
  }
  std::string buffer(100, '\0');
  for (std::size_t count = 1; count > 0;) {
    count = (co_await tls.read_some(buffer)).value_or(0);
    out.seen.append(buffer, 0, count);
  }
  // OpenSSL forgets the session of a connection that breaks off.
  (void)co_await tls.shutdown_write();
  out.resumed = SSL_session_reused(raw) == 1;
  out.session.reset(SSL_get1_session(raw));
}

Outcome talk(const InterceptRequest& request, Client client) {
  asio::io_context loop;
  // One for all, as in the gateway: what separates sandboxes must not be the process.
  static Interceptor& interceptor = *[] {
    auto* made = new Interceptor(system_clock());
    EXPECT_TRUE(made->prepare().ok());
    return made;
  }();
  auto context = net::make_context(TLS_client_method());
  EXPECT_TRUE(context.ok());
  auto trusted = net::read_certificate(client.trusted_pem);
  EXPECT_TRUE(trusted.ok());
  X509_STORE_add_cert(SSL_CTX_get_cert_store(context->get()), trusted->get());
  SSL_CTX_set_verify(context->get(), SSL_VERIFY_PEER, nullptr);
  auto [a, b] = net::stream_pair(loop.get_executor());
  Outcome out;
  asio::co_spawn(loop, serve(interceptor, std::move(a), request, out), asio::detached);
  asio::co_spawn(loop, connect(std::move(b), context->get(), client, out), asio::detached);
  loop.run();
  return out;
}

InterceptRequest request(const std::string& sandbox, const std::string& client,
                         const std::string& host = "api.example.com") {
  return {authority(sandbox), host, client};
}

TEST(Intercept, SpeaksAsTheHostThatWasAskedFor) {
  for (int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    auto asked = request("sbx1", "sbx1/1");
    auto out = talk(asked, {.trusted_pem = asked.authority->certificate_pem(), .newest = version});
    EXPECT_FALSE(out.server_error) << out.server_error->message();
    EXPECT_FALSE(out.client_error) << out.client_error->message();
    EXPECT_EQ(out.seen, "hello");
    EXPECT_EQ(out.protocol, "h2");
  }
}

TEST(Intercept, OffersOnlyTheProtocolsItIsToldTo) {
  auto asked = request("sbx1", "sbx1/1");
  asked.protocols = Protocols::kHttp1;
  EXPECT_EQ(talk(asked, {.trusted_pem = asked.authority->certificate_pem()}).protocol, "http/1.1");
}

TEST(Intercept, ASandboxDoesNotTrustTheAuthorityOfAnother) {
  auto out = talk(request("sbx1", "sbx1/1"), {.trusted_pem = authority("sbx2")->certificate_pem()});
  EXPECT_TRUE(out.client_error.has_value());
  ASSERT_TRUE(out.server_error.has_value());
  EXPECT_EQ(out.server_error->word(), net::kPeerDistrusts);
}

class Tickets : public ::testing::TestWithParam<int> {
 protected:
  // Whether a ticket from `first` makes the handshake of `second` short.
  bool resumes(const InterceptRequest& first, const InterceptRequest& second) {
    auto trust = first.authority->certificate_pem();
    auto got = talk(first, {.trusted_pem = trust, .host = first.host, .newest = GetParam()});
    EXPECT_EQ(got.seen, "hello");
    auto again = talk(second, {.trusted_pem = second.authority->certificate_pem(),
                               .host = second.host,
                               .newest = GetParam(),
                               .session = got.session.get()});
    EXPECT_EQ(again.seen, "hello");
    return again.resumed;
  }
};

TEST_P(Tickets, AreTakenFromTheSandboxThatGotThem) {
  auto asked = request("sbx1", "sbx1/1");
  EXPECT_TRUE(resumes(asked, asked));
}

TEST_P(Tickets, AreNotTakenFromAnotherSandboxGenerationOrForAnotherHost) {
  auto asked = request("sbx1", "sbx1/1");
  EXPECT_FALSE(resumes(asked, request("sbx2", "sbx2/1")));
  auto restored = asked;
  restored.client = "sbx1/2";
  EXPECT_FALSE(resumes(asked, restored));
  auto elsewhere = asked;
  elsewhere.host = "other.example.com";
  EXPECT_FALSE(resumes(asked, elsewhere));
}

INSTANTIATE_TEST_SUITE_P(Versions, Tickets, ::testing::Values(TLS1_2_VERSION, TLS1_3_VERSION));

}  // namespace
}  // namespace atl::gateway
