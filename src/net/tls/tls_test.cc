// SPDX-License-Identifier: Apache-2.0
#include "net/tls/tls.h"

#include <gtest/gtest.h>
#include <openssl/x509v3.h>

#include "net/forwarding_stream.h"
#include "net/tcp.h"
#include "net/tls/openssl.h"
#include "net/tls/tls_stream.h"

namespace atl::net {
namespace {

namespace asio = async::asio;

struct Identities {
  TlsIdentity authority;
  TlsIdentity server;
};

const Identities& identities() {
  static const Identities kMade = [] {
    auto authority = make_certificate_authority("Atoll test authority");
    EXPECT_TRUE(authority.ok());
    auto server = make_server_identity(*authority, {"*.atoll.localhost", "atoll.localhost", "127.0.0.1"});
    EXPECT_TRUE(server.ok());
    return Identities{*authority, *server};
  }();
  return kMade;
}

struct Outcome {
  std::optional<Error> server_error;
  std::optional<Error> client_error;
  std::string server_saw;
  std::string client_saw;
  std::string protocol;
};

async::Task<> read_until_end(Stream& stream, std::string& out, std::optional<Error>& failure) {
  std::string buffer(100'000, '\0');
  for (bool wait = false;; wait = !wait) {
    if (wait)
      (void)co_await stream.wait_readable();  // it neither loses bytes nor waits for those that are here
    auto count = co_await stream.read_some(buffer);
    if (!count.ok()) failure = count.error();
    if (!count.ok() || *count == 0) co_return;
    out.append(buffer, 0, *count);
  }
}

async::Task<> run_server(StreamPtr stream, std::string prefix, std::string say, Outcome& out) {
  auto context = make_tls_server(identities().server);
  EXPECT_TRUE(context.ok());
  auto accepted = co_await (*context)->accept(std::move(stream), std::move(prefix), std::chrono::seconds(5));
  if (!accepted.ok()) {
    out.server_error = accepted.error();
    co_return;
  }
  out.protocol = accepted->protocol;
  accepted->stream->set_idle_limit(Steady::duration::zero());
  EXPECT_TRUE((co_await accepted->stream->write_all("a", say, "z")).ok());
  EXPECT_TRUE((co_await accepted->stream->shutdown_write()).ok());
  co_await read_until_end(*accepted->stream, out.server_saw, out.server_error);
}

async::Task<> say_first(StreamPtr stream, std::string ca, std::string say) {
  auto connected =
      co_await tls_connect(std::move(stream), "x.atoll.localhost", std::move(ca), std::chrono::seconds(5));
  EXPECT_TRUE(connected.ok());
  if (!connected.ok()) co_return;
  EXPECT_TRUE((co_await (*connected)->write_all(say)).ok());
  EXPECT_TRUE((co_await (*connected)->shutdown_write()).ok());
  std::string saw;
  std::optional<Error> failure;
  co_await read_until_end(**connected, saw, failure);
}

async::Task<> run_client(StreamPtr stream, std::string host, std::string ca, std::string say, Outcome& out) {
  auto connected =
      co_await tls_connect(std::move(stream), std::move(host), std::move(ca), std::chrono::seconds(5));
  if (!connected.ok()) {
    out.client_error = connected.error();
    co_return;
  }
  co_await read_until_end(**connected, out.client_saw, out.client_error);
  EXPECT_TRUE((co_await (*connected)->write_all(say)).ok());
  EXPECT_TRUE((co_await (*connected)->shutdown_write()).ok());
}

Outcome talk(std::string host, std::string ca, std::string server_says = "hello",
             std::string client_says = "hi") {
  asio::io_context loop;
  auto [a, b] = stream_pair(loop.get_executor());
  Outcome out;
  asio::co_spawn(loop, run_server(std::move(a), "", std::move(server_says), out), asio::detached);
  asio::co_spawn(loop, run_client(std::move(b), std::move(host), std::move(ca), std::move(client_says), out),
                 asio::detached);
  loop.run();
  return out;
}

TEST(Tls, CarriesBytesBothWaysAndEndsCleanly) {
  auto out = talk("x.atoll.localhost", identities().authority.certificate_chain);
  EXPECT_FALSE(out.client_error) << out.client_error->message();
  EXPECT_FALSE(out.server_error) << out.server_error->message();
  EXPECT_EQ(out.client_saw, "ahelloz");
  EXPECT_EQ(out.server_saw, "hi");
  EXPECT_EQ(out.protocol, "http/1.1");
}

TEST(Tls, LargeTransfersArriveWhole) {
  std::string down(3'000'001, 'd'), up(2'000'003, 'u');
  auto out = talk("127.0.0.1", identities().authority.certificate_chain, down, up);
  EXPECT_EQ(out.client_saw, "a" + down + "z");
  EXPECT_EQ(out.server_saw, up);
}

TEST(Tls, AnotherNameIsRefusedByTheClient) {
  for (auto host : {"evil.example", "a.b.atoll.localhost", "127.0.0.2"}) {
    auto out = talk(host, identities().authority.certificate_chain);
    EXPECT_TRUE(out.client_error.has_value()) << host;
    EXPECT_EQ(out.client_saw, "");
  }
}

TEST(Tls, AnotherAuthorityIsRefusedByTheClient) {
  auto other = make_certificate_authority("Atoll test authority");
  ASSERT_TRUE(other.ok());
  EXPECT_TRUE(talk("atoll.localhost", other->certificate_chain).client_error.has_value());
  EXPECT_TRUE(talk("atoll.localhost", "").client_error.has_value());
}

// Gives five bytes at a time, which is how long the head of a record is, and tries at each of them what a
// wait would do to the buffers.
class Trickle final : public ForwardingStream {
 public:
  using ForwardingStream::ForwardingStream;
  async::Task<Result<std::size_t>> read_some(std::span<char> out) override {
    if (above != nullptr) (void)above->wait_closed();
    return inner().read_some(out.first(std::min<std::size_t>(out.size(), 5)));
  }
  Stream* above = nullptr;
};

async::Task<> read_in_trickles(StreamPtr stream, std::string& saw) {
  auto trickle = std::make_unique<Trickle>(std::move(stream));
  auto* inner = trickle.get();
  auto context = make_tls_server(identities().server);
  auto accepted = co_await (*context)->accept(std::move(trickle), "", std::chrono::seconds(5));
  if (!accepted.ok()) co_return;
  accepted->stream->set_idle_limit(Steady::duration::zero());
  inner->above = accepted->stream.get();
  std::optional<Error> failure;
  co_await read_until_end(*accepted->stream, saw, failure);
  EXPECT_FALSE(failure) << failure->message();
  EXPECT_TRUE((co_await accepted->stream->shutdown_write()).ok());
}

TEST(Tls, BuffersAreNotGivenBackInTheMiddleOfARecord) {
  asio::io_context loop;
  auto [a, b] = stream_pair(loop.get_executor());
  std::string saw, up(40'000, 'u');
  Outcome out;
  asio::co_spawn(loop, read_in_trickles(std::move(a), saw), asio::detached);
  auto ca = identities().authority.certificate_chain;
  asio::co_spawn(loop, say_first(std::move(b), ca, up), asio::detached);
  loop.run();
  EXPECT_EQ(saw, up);
}

async::Task<> hold_nothing(StreamPtr stream, std::string ca) {
  auto connected =
      co_await tls_connect(std::move(stream), "x.atoll.localhost", std::move(ca), std::chrono::seconds(5));
  EXPECT_TRUE(connected.ok());
  if (!connected.ok()) co_return;
  auto& tls = dynamic_cast<TlsStream&>(**connected);
  char first = 0;
  auto count = co_await tls.read_some(std::span(&first, 1));
  EXPECT_TRUE(count.ok() && first == 'a');
  auto written = co_await tls.write_all(std::string(10'000, 'c'));
  EXPECT_TRUE(written.ok());
  EXPECT_GT(tls.buffered(), 10'000U);
  std::string rest;
  std::optional<Error> failure;
  co_await read_until_end(tls, rest, failure);
  (void)tls.wait_closed();
  EXPECT_LT(tls.buffered(), 100U);  // a short string needs no memory of its own, and counts
  EXPECT_TRUE((co_await tls.shutdown_write()).ok());
}

TEST(Tls, AConnectionThatWaitsHoldsNoBuffers) {
  asio::io_context loop;
  auto [a, b] = stream_pair(loop.get_executor());
  Outcome out;
  asio::co_spawn(loop, run_server(std::move(a), "", "hello", out), asio::detached);
  asio::co_spawn(loop, hold_nothing(std::move(b), identities().authority.certificate_chain), asio::detached);
  loop.run();
  EXPECT_EQ(out.server_saw.size(), 10'000U);
}

async::Task<> plain_client(StreamPtr stream, std::string bytes) {
  (void)co_await stream->write_all(bytes);
  std::string seen;
  std::optional<Error> failure;
  co_await read_until_end(*stream, seen, failure);
}

TEST(Tls, PlainBytesFailTheHandshake) {
  asio::io_context loop;
  auto [a, b] = stream_pair(loop.get_executor());
  Outcome out;
  asio::co_spawn(loop, run_server(std::move(a), "", "x", out), asio::detached);
  asio::co_spawn(loop, plain_client(std::move(b), "GET / HTTP/1.1\r\n\r\n"), asio::detached);
  loop.run();
  ASSERT_TRUE(out.server_error.has_value());
  EXPECT_EQ(out.server_error->code(), Code::kUnavailable);
}

async::Task<> accept_with_limit(StreamPtr stream, Code& code) {
  auto context = make_tls_server(identities().server);
  auto accepted = co_await (*context)->accept(std::move(stream), "", std::chrono::milliseconds(10));
  if (!accepted.ok()) code = accepted.error().code();
}

TEST(Tls, ASilentPeerEndsTheHandshakeAtItsLimit) {
  asio::io_context loop;
  auto [a, b] = stream_pair(loop.get_executor());
  Code code = Code::kInternal;
  asio::co_spawn(loop, accept_with_limit(std::move(a), code), asio::detached);
  loop.run();
  EXPECT_EQ(code, Code::kDeadline);
}

async::Task<> cut_off(StreamPtr stream, Outcome& out) {
  auto connected = co_await tls_connect(std::move(stream), "127.0.0.1",
                                        identities().authority.certificate_chain, std::chrono::seconds(5));
  EXPECT_TRUE(connected.ok());
  co_await read_until_end(**connected, out.client_saw, out.client_error);
  (*connected)->close();
}

TEST(Tls, AnEndWithoutTheClosingAlertIsAnError) {
  asio::io_context loop;
  auto [a, b] = stream_pair(loop.get_executor());
  Outcome out;
  asio::co_spawn(loop, run_server(std::move(a), "", "x", out), asio::detached);
  asio::co_spawn(loop, cut_off(std::move(b), out), asio::detached);
  loop.run();
  EXPECT_FALSE(out.client_error);
  EXPECT_TRUE(out.server_error.has_value());
}

TEST(Certificates, SayWhatTheyAreFor) {
  auto server = read_certificate(identities().server.certificate_chain);
  auto authority = read_certificate(identities().authority.certificate_chain);
  ASSERT_TRUE(server.ok() && authority.ok());
  EXPECT_EQ(X509_check_ca(authority->get()), 1);
  EXPECT_EQ(X509_check_ca(server->get()), 0);
  EXPECT_EQ(X509_get_extended_key_usage(server->get()), static_cast<std::uint32_t>(XKU_SSL_SERVER));
  EXPECT_EQ(X509_get_key_usage(server->get()), static_cast<std::uint32_t>(KU_DIGITAL_SIGNATURE));
  EXPECT_EQ(X509_check_ip_asc(server->get(), "127.0.0.1", 0), 1);
  EXPECT_EQ(X509_check_host(server->get(), "49983-x.atoll.localhost", 0, 0, nullptr), 1);
  int days = 0, seconds = 0;
  ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(server->get()), X509_get0_notAfter(server->get()));
  EXPECT_EQ(days, 825);
  EXPECT_EQ(seconds, 0);
}

TEST(Certificates, RefuseNamesThatAreNone) {
  for (auto name : {"", "a,DNS:evil", "a b", "UPPER", "a/b"}) {
    EXPECT_FALSE(make_server_identity(identities().authority, {name}).ok()) << name;
  }
  EXPECT_FALSE(make_server_identity(identities().authority, {}).ok());
}

TEST(Certificates, AForeignKeyIsRefused) {
  TlsIdentity mixed{identities().server.certificate_chain, identities().authority.private_key};
  EXPECT_FALSE(make_tls_server(mixed).ok());
  EXPECT_FALSE(make_tls_server({"", ""}).ok());
}

}  // namespace
}  // namespace atl::net
