// SPDX-License-Identifier: Apache-2.0
//
// Over real loopback sockets, with curl as an independent client of TLS, ALPN and HTTP/2.
#include "http/front/front.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <thread>

#include "http/client.h"

namespace atl::http {
namespace {

namespace asio = async::asio;

Task<> show(Exchange& exchange) {
  auto body = co_await exchange.read_all(1 << 20);
  ResponseHead head;
  auto& r = exchange.request();
  auto text = fmt::format("{} {} {} {} {}", r.method, r.target, r.version, r.secure ? "tls" : "plain",
                          body.ok() ? body->size() : 0);
  (void)co_await exchange.respond(std::move(head), std::move(text));
}

// A server on its own thread and loop, stopped when it goes out of scope.
class Running {
 public:
  explicit Running(ServerOptions options, Handler handler = show) {
    auto listener = net::listen_tcp(loop_.get_executor(), {"127.0.0.1", 0});
    EXPECT_TRUE(listener.ok());
    server_ = std::make_unique<Server>(loop_.get_executor(), *std::move(listener), std::move(options),
                                       std::move(handler));
    server_->start();
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Running() { stop(std::chrono::seconds(5)); }
  void stop(Steady::duration grace) {
    if (!thread_.joinable()) return;
    asio::co_spawn(loop_, server_->stop(grace), asio::detached);
    thread_.join();
  }
  std::uint16_t port() const { return server_->port(); }

 private:
  asio::io_context loop_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

struct Tls {
  net::TlsIdentity authority;
  std::shared_ptr<net::TlsServerContext> context;
  std::string ca_file;

  Tls() {
    authority = *net::make_certificate_authority("front test");
    context =
        *net::make_tls_server(*net::make_server_identity(authority, {"*.atoll.localhost", "127.0.0.1"}));
    ca_file = ::testing::TempDir() + fmt::format("front_test_ca.{}.pem", getpid());
    std::ofstream(ca_file) << authority.certificate_chain;
  }
  ~Tls() { std::remove(ca_file.c_str()); }
};

std::string curl(const std::string& arguments) {
  std::string out;
  FILE* pipe = popen(("curl -sS --max-time 20 " + arguments + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (auto count = fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, count);
  pclose(pipe);
  return out;
}

TEST(Front, OnePortSpeaksPlainAndTlsInBothVersions) {
  Tls tls;
  ServerOptions options;
  options.protocols.tls = tls.context;
  Running server(options);
  auto plain = fmt::format("http://127.0.0.1:{}/a", server.port());
  auto secure = fmt::format("--cacert {} https://127.0.0.1:{}/a", tls.ca_file, server.port());
  EXPECT_EQ(curl("--http1.1 " + plain), "GET /a 11 plain 0");
  EXPECT_EQ(curl("--http2-prior-knowledge " + plain), "GET /a 20 plain 0");
  EXPECT_EQ(curl("--http1.1 " + secure), "GET /a 11 tls 0");
  EXPECT_EQ(curl("--http2 " + secure), "GET /a 20 tls 0");
  EXPECT_EQ(curl("--tls-max 1.2 --http2 " + secure), "GET /a 20 tls 0");
  EXPECT_EQ(curl(fmt::format("--cacert {0} --resolve 49983-x.atoll.localhost:{1}:127.0.0.1 "
                             "https://49983-x.atoll.localhost:{1}/b",
                             tls.ca_file, server.port())),
            "GET /b 20 tls 0");
}

TEST(Front, UploadsArriveInEveryVersion) {
  Tls tls;
  ServerOptions options;
  options.protocols.tls = tls.context;
  Running server(options);
  auto file = ::testing::TempDir() + fmt::format("front_test_body.{}", getpid());
  std::ofstream(file) << std::string(1'000'000, 'x');
  auto target = fmt::format("--cacert {} -T {} -H 'Transfer-Encoding: chunked' https://127.0.0.1:{}/u",
                            tls.ca_file, file, server.port());
  EXPECT_EQ(curl("--http1.1 " + target), "PUT /u 11 tls 1000000");
  EXPECT_EQ(
      curl(fmt::format("--http2 --cacert {} -T {} https://127.0.0.1:{}/u", tls.ca_file, file, server.port())),
      "PUT /u 20 tls 1000000");
  std::remove(file.c_str());
}

TEST(Front, PlainHttpIsToldToUseTls) {
  Tls tls;
  ServerOptions options;
  options.protocols.tls = tls.context;
  options.protocols.plain = false;
  Running server(options);
  auto answer = curl(fmt::format("-i http://127.0.0.1:{}/", server.port()));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 426 ")) << answer;
}

TEST(Front, TlsWithoutACertificateIsNotAnswered) {
  Running server({});
  auto answer = curl(fmt::format("-k https://127.0.0.1:{}/", server.port()));
  EXPECT_EQ(answer.find("GET"), std::string::npos);
}

// Opens `count` connections and keeps them without a word, then asks on one more.
Task<> crowd(std::uint16_t port, std::size_t count, std::string& answer) {
  std::vector<net::StreamPtr> silent;
  net::Endpoint endpoint{"127.0.0.1", port};
  net::ConnectOptions options;
  for (std::size_t i = 0; i < count; ++i) {
    auto stream = co_await net::connect_tcp(endpoint, options);
    if (stream.ok()) silent.push_back(*std::move(stream));
  }
  EXPECT_EQ(silent.size(), count);
  auto stream = co_await net::connect_tcp(endpoint, options);
  (void)co_await (*stream)->write_all("GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  char buffer[1024];
  for (;;) {
    auto got = co_await (*stream)->read_some(buffer);
    if (!got.ok() || *got == 0) break;
    answer.append(buffer, *got);
  }
}

std::string ask_in_a_crowd(ServerOptions options, std::size_t silent) {
  Running server(std::move(options));
  asio::io_context loop;
  std::string answer;
  asio::co_spawn(loop, crowd(server.port(), silent, answer), asio::detached);
  loop.run();
  return answer;
}

TEST(Front, AThousandSilentClientsDoNotKeepAGoodOneOut) {
  EXPECT_NE(ask_in_a_crowd({}, 400).find("GET /last"), std::string::npos);
}

TEST(Front, BeyondTheConnectionLimitClientsAreAsked503) {
  ServerOptions options;
  options.limits.connections = 3;
  auto answer = ask_in_a_crowd(options, 3);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
  EXPECT_NE(answer.find("\"code\":503"), std::string::npos);
}

TEST(Front, OneAddressHasALimitOfItsOwn) {
  ServerOptions options;
  options.connections_per_peer = 2;
  EXPECT_TRUE(ask_in_a_crowd(options, 2).starts_with("HTTP/1.1 503 "));
  EXPECT_TRUE(ask_in_a_crowd(options, 1).starts_with("HTTP/1.1 200 "));
}

// Asks, and says how reading the answer ended.
Task<> ask_and_see_the_end(std::uint16_t port, std::string& answer, int& error) {
  net::Endpoint endpoint{"127.0.0.1", port};
  net::ConnectOptions options;
  auto stream = co_await net::connect_tcp(endpoint, options);
  (void)co_await (*stream)->write_all("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  char buffer[1024];
  for (;;) {
    auto got = co_await (*stream)->read_some(buffer);
    if (!got.ok()) error = got.error().sys_errno();
    if (!got.ok() || *got == 0) break;
    answer.append(buffer, *got);
  }
}

TEST(Front, AnAbortedAnswerIsAResetOfTheConnection) {
  Handler handler = [](Exchange& exchange) -> Task<> {
    ResponseHead head;
    (void)co_await exchange.send_head(std::move(head));
    exchange.abort();
  };
  Running server({}, handler);
  asio::io_context loop;
  std::string answer;
  int error = 0;
  asio::co_spawn(loop, ask_and_see_the_end(server.port(), answer, error), asio::detached);
  loop.run();
  EXPECT_EQ(error, ECONNRESET);
}

// stop() arrives while one exchange runs and another connection is idle.
struct SlowHandler {
  async::Event* started = nullptr;
  async::Event* go_on = nullptr;
};

Task<> stop_in_the_middle(asio::io_context& loop, Steady::duration grace, bool release, std::string& answer) {
  async::Event started(loop.get_executor()), go_on(loop.get_executor());
  Handler handler = [&](Exchange& exchange) -> Task<> {
    started.notify_all();
    co_await go_on.wait();
    co_await show(exchange);
  };
  auto listener = net::listen_tcp(loop.get_executor(), {"127.0.0.1", 0});
  ServerOptions options;
  Server server(loop.get_executor(), *std::move(listener), options, handler);
  server.start();
  net::Endpoint endpoint{"127.0.0.1", server.port()};
  net::ConnectOptions connect;
  auto idle = co_await net::connect_tcp(endpoint, connect);
  auto busy = co_await net::connect_tcp(endpoint, connect);
  (void)co_await (*busy)->write_all("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  co_await started.wait();
  async::Scope scope(loop.get_executor());
  scope.spawn("stop", server.stop(grace));
  char buffer[512];
  auto end = co_await (*idle)->read_some(buffer);  // the idle one ends at once
  EXPECT_TRUE(!end.ok() || *end == 0);
  if (release) go_on.notify_all();
  for (;;) {
    auto got = co_await (*busy)->read_some(buffer);
    if (!got.ok() || *got == 0) break;
    answer.append(buffer, *got);
  }
  co_await scope.join();
  EXPECT_EQ(server.connections(), 0u);
}

TEST(Server, StopLetsRunningExchangesFinish) {
  asio::io_context loop;
  std::string answer;
  asio::co_spawn(loop, stop_in_the_middle(loop, std::chrono::seconds(10), true, answer), asio::detached);
  loop.run();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_NE(answer.find("connection: close"), std::string::npos);
}

TEST(Server, StopCancelsWhatIsLeftAfterItsGrace) {
  asio::io_context loop;
  std::string answer;
  asio::co_spawn(loop, stop_in_the_middle(loop, std::chrono::milliseconds(10), false, answer),
                 asio::detached);
  loop.run();
  EXPECT_EQ(answer, "");
}

}  // namespace
}  // namespace atl::http
