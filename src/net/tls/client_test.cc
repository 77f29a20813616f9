// SPDX-License-Identifier: Apache-2.0
#include "net/tls/client.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>

#include "net/tcp.h"
#include "net/tls/context.h"
#include "net/tls/sessions.h"
#include "net/tls/tls.h"
#include "net/tls/tls_stream.h"

namespace atl::net {
namespace {

namespace asio = async::asio;
using std::chrono::seconds;

const TlsIdentity& authority() {
  static const TlsIdentity kMade = *make_certificate_authority("Atoll test authority");
  return kMade;
}

std::string pem_of(X509* certificate) {
  BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  char* data = nullptr;
  auto size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

// The same certificate with other limits of its validity, in seconds from now.
TlsIdentity with_validity(const TlsIdentity& identity, long from, long until) {
  auto certificate = *read_certificate(identity.certificate_chain);
  auto key = *read_private_key(authority().private_key);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), from);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), until);
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  return {pem_of(certificate.get()), identity.private_key};
}

struct Seen {
  std::string protocol;
  std::vector<bool> resumed;
  std::optional<Error> error;
  std::string server_saw;  // the common name of the client's certificate
};

async::Task<> serve_one(std::shared_ptr<TlsServerContext> server, StreamPtr stream) {
  auto accepted = co_await server->accept(std::move(stream), "", seconds(5));
  if (!accepted.ok()) co_return;
  (void)co_await accepted->stream->write_all("hello");
  char buffer[16];
  (void)co_await accepted->stream->read_some(buffer);
}

async::Task<> ask_one(std::shared_ptr<TlsClientContext> client, StreamPtr stream, TlsClientOptions options,
                      Seen& seen) {
  auto connected = co_await client->connect(std::move(stream), std::move(options));
  if (!connected.ok()) {
    seen.error = connected.error();
    co_return;
  }
  seen.protocol = connected->protocol;
  seen.resumed.push_back(connected->resumed);
  char buffer[16];
  EXPECT_TRUE((co_await connected->stream->read_some(buffer)).ok());
}

// One connection after the other, each with its own options.
Seen talk(const TlsIdentity& identity, const std::vector<TlsClientOptions>& all, std::string ca = "") {
  asio::io_context loop;
  Seen seen;
  auto server = make_tls_server(identity);
  auto client = make_tls_client(ca.empty() ? authority().certificate_chain : ca);
  EXPECT_TRUE(server.ok() && client.ok());
  for (const auto& options : all) {
    auto [a, b] = stream_pair(loop.get_executor());
    asio::co_spawn(loop, serve_one(*server, std::move(a)), asio::detached);
    asio::co_spawn(loop, ask_one(*client, std::move(b), options, seen), asio::detached);
    loop.run();
    loop.restart();
  }
  return seen;
}

TlsIdentity server_for(std::vector<std::string> names) { return *make_server_identity(authority(), names); }

TEST(TlsClient, AgreesOnHttp2OnlyWhenItWasOffered) {
  auto identity = server_for({"api.example"});
  EXPECT_EQ(talk(identity, {{.host = "api.example", .h2 = Http2::kYes}}).protocol, "h2");
  EXPECT_EQ(talk(identity, {{.host = "api.example"}}).protocol, "http/1.1");
}

TEST(TlsClient, ResumesSessionsOfTheSameHostAndKeyOnly) {
  auto identity = server_for({"api.example", "other.example"});
  TlsClientOptions first{.host = "api.example", .session_key = "sandbox 1"};
  TlsClientOptions other_key{.host = "api.example", .session_key = "sandbox 2"};
  TlsClientOptions other_host{.host = "other.example", .session_key = "sandbox 1"};
  TlsClientOptions none{.host = "api.example"};
  auto seen = talk(identity, {first, other_key, other_host, none, first});
  EXPECT_FALSE(seen.error);
  EXPECT_EQ(seen.resumed, (std::vector<bool>{false, false, false, false, true}));
}

TEST(TlsClient, SaysWhyACertificateIsNotAccepted) {
  auto good = server_for({"api.example"});
  struct Case {
    TlsIdentity identity;
    std::string host;
    std::string_view word;
  };
  auto stranger = *make_certificate_authority("Atoll test authority");
  for (const auto& one : {
           Case{with_validity(good, -7200, -3600), "api.example", kCertificateExpired},
           Case{with_validity(good, 3600, 7200), "api.example", kCertificateExpired},
           Case{good, "other.example", kCertificateWrongName},
           Case{good, "127.0.0.1", kCertificateWrongName},
           Case{*make_server_identity(stranger, {"api.example"}), "api.example", kCertificateUnknownIssuer},
       }) {
    auto seen = talk(one.identity, {{.host = one.host}});
    ASSERT_TRUE(seen.error) << one.word;
    EXPECT_EQ(seen.error->word(), one.word);
    EXPECT_EQ(seen.error->code(), Code::kCorrupt);
  }
}

TEST(TlsClient, TheSystemsRootsDoNotTrustAPrivateAuthority) {
  asio::io_context loop;
  Seen seen;
  auto server = *make_tls_server(server_for({"api.example"}));
  auto client = make_tls_client("");
  ASSERT_TRUE(client.ok());
  auto [a, b] = stream_pair(loop.get_executor());
  TlsClientOptions options{.host = "api.example"};
  asio::co_spawn(loop, serve_one(server, std::move(a)), asio::detached);
  asio::co_spawn(loop, ask_one(*client, std::move(b), options, seen), asio::detached);
  loop.run();
  ASSERT_TRUE(seen.error);
  EXPECT_EQ(seen.error->word(), kCertificateUnknownIssuer);
}

// A certificate in the middle of a chain is no root, even when it is the one that is trusted.
TEST(TlsClient, TrustsRootsAndNotLeaves) {
  auto identity = server_for({"api.example"});
  auto seen = talk(identity, {{.host = "api.example"}}, identity.certificate_chain);
  ASSERT_TRUE(seen.error);
  EXPECT_EQ(seen.error->word(), kCertificateUnknownIssuer);
}

TEST(TlsClient, TrustsEveryAuthorityThatItWasGiven) {
  auto other = *make_certificate_authority("Another");
  auto seen = talk(server_for({"api.example"}), {{.host = "api.example"}},
                   other.certificate_chain + authority().certificate_chain);
  EXPECT_FALSE(seen.error);
  EXPECT_FALSE(make_tls_client("nothing").ok());
}

// A server that insists on a client certificate.
async::Task<> serve_mutual(StreamPtr stream, Seen& seen) {
  auto identity = server_for({"api.example"});
  auto context = *make_context(TLS_server_method());
  auto certificate = *read_certificate(identity.certificate_chain);
  auto key = *read_private_key(identity.private_key);
  SSL_CTX_use_certificate(context.get(), certificate.get());
  SSL_CTX_use_PrivateKey(context.get(), key.get());
  auto root = *read_certificate(authority().certificate_chain);
  X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), root.get());
  X509_STORE_set_purpose(SSL_CTX_get_cert_store(context.get()), X509_PURPOSE_ANY);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SslPtr ssl(SSL_new(context.get()));
  SSL_set_accept_state(ssl.get());
  auto* raw = ssl.get();
  TlsStream tls(co_await asio::this_coro::executor, std::move(stream), std::move(ssl), "");
  if (!(co_await tls.handshake(seconds(5))).ok()) co_return;
  char name[64] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(raw)), NID_commonName, name,
                            sizeof name);
  seen.server_saw = name;
  (void)co_await tls.write_all("hello");
}

Seen talk_mutual(std::shared_ptr<const TlsClientIdentity> identity) {
  asio::io_context loop;
  Seen seen;
  auto client = *make_tls_client(authority().certificate_chain);
  auto [a, b] = stream_pair(loop.get_executor());
  TlsClientOptions options{.host = "api.example"};
  options.identity = std::move(identity);
  asio::co_spawn(loop, serve_mutual(std::move(a), seen), asio::detached);
  asio::co_spawn(loop, ask_one(client, std::move(b), options, seen), asio::detached);
  loop.run();
  return seen;
}

TEST(TlsClient, ShowsItsCertificateToAPeerThatAsks) {
  auto mine = server_for({"client.example"});
  auto certificate = *read_certificate(mine.certificate_chain);
  auto key = *read_private_key(mine.private_key);
  auto identity = TlsClientIdentity::make(certificate.get(), {}, key.get());
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(talk_mutual(*identity).server_saw, "client.example");
  auto foreign = *read_private_key(authority().private_key);
  EXPECT_FALSE(TlsClientIdentity::make(certificate.get(), {}, foreign.get()).ok());
}

TEST(TlsSessions, AreBoundedAndGoOutOnceAndInTime) {
  TlsSessions sessions;
  auto now = Steady::now();
  for (std::size_t i = 0; i < TlsSessions::kMaxSessions + 10; ++i)
    sessions.put(std::to_string(i), SessionPtr(SSL_SESSION_new()), now);
  EXPECT_EQ(sessions.size(), TlsSessions::kMaxSessions);
  EXPECT_EQ(sessions.take("0", now), nullptr);
  EXPECT_NE(sessions.take("100", now), nullptr);
  EXPECT_EQ(sessions.take("100", now), nullptr);
  EXPECT_EQ(sessions.take("101", now + TlsSessions::kMaxAge), nullptr);
}

}  // namespace
}  // namespace atl::net
