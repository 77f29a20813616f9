// SPDX-License-Identifier: Apache-2.0
//
// The gateway between real HTTP servers and clients, on in-process streams: each rule and each answer.
#include "ingress/gateway.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "model/guest_boot.h"
#include "net/tcp.h"
#include "support/fake_directory.h"

namespace atl::ingress {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A guest with a server on some ports, a client's end, and the gateway in between.
class GatewayTest : public testing::Test {
 protected:
  GatewayTest() : scope(loop.get_executor()), happened(loop.get_executor()) { directory.add(); }
  ~GatewayTest() override {
    scope.cancel();
    while (scope.size() > 0 && loop.run_one_for(std::chrono::seconds(10)) > 0) continue;
    // Kept connections and timers of the gateway go with the loop.
  }

  Gateway& gateway() {
    if (!gateway_) {
      options.domain = "atoll.localhost:7400";
      options.refused_retry = std::chrono::milliseconds(30);
      options.dial = [this](control::RoutePtr, std::uint16_t port) { return dial(port); };
      gateway_ = std::make_unique<Gateway>(directory, options);
    }
    return *gateway_;
  }

  Task<Result<net::StreamPtr>> dial(std::uint16_t port) {
    ++dials;
    auto service = services.find(port);
    if (service == services.end()) co_return Error::from_errno(ECONNREFUSED, "connect");
    auto [ours, theirs] = net::stream_pair(loop.get_executor());
    scope.spawn("guest", serve(std::move(theirs), service->second));
    co_return std::move(ours);
  }
  Task<> serve(net::StreamPtr stream, http::Handler handler) {
    co_await http::serve_http1(std::move(stream), "", false, limits, handler);
    guest_connections_ended++;
    happened.notify_all();
  }

  // A connection of a client to the gateway.
  net::StreamPtr connect() {
    auto [client, server] = net::stream_pair(loop.get_executor());
    http::Handler handler = [this](http::Exchange& exchange) { return gateway().handle(exchange); };
    scope.spawn("front", front(std::move(server), std::move(handler)));
    return std::move(client);
  }
  Task<> front(net::StreamPtr stream, http::Handler handler) {
    co_await http::serve_http1(std::move(stream), "", false, limits, handler);
    happened.notify_all();
  }

  template <class T>
  T run(Task<T> task) {
    std::optional<T> out;
    loop.restart();
    async::asio::co_spawn(loop, std::move(task), [&out](std::exception_ptr failure, T value) {
      if (failure) std::rethrow_exception(failure);
      out = std::move(value);
    });
    while (!out) {
      if (loop.run_one_for(std::chrono::seconds(20)) == 0) throw std::runtime_error("the test hangs");
    }
    return std::move(*out);
  }

  static Task<std::string> read_to_end(net::Stream& stream) {
    std::string out, part(4096, 0);
    while (true) {
      auto got = co_await stream.read_some(part);
      if (!got) co_return out + "(reset)";
      if (*got == 0) co_return out;
      out.append(part, 0, *got);
    }
  }
  static Task<std::string> read_until(net::Stream& stream, std::string end) {
    std::string out, part(4096, 0);
    while (out.find(end) == std::string::npos) {
      auto got = co_await stream.read_some(part);
      if (!got || *got == 0) co_return out + "(end)";
      out.append(part, 0, *got);
    }
    co_return out;
  }
  Task<std::string> exchange_bytes(std::string request) {
    auto stream = connect();
    (void)co_await stream->write_all(request);
    co_return co_await read_to_end(*stream);
  }
  // A guest that takes a request and says nothing until its connection is closed.
  static Task<> never(http::Exchange& exchange) { co_await exchange.wait_client_gone(); }
  Task<bool> all_ended() {
    while (gateway().active() > 0) co_await async::yield();
    co_return true;
  }
  std::string ask(std::string request) { return run(exchange_bytes(std::move(request))); }

  static std::string get(std::string path, std::string fields = "", int port = 8080) {
    return fmt::format(
        "GET {} HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: {}\r\n"
        "Connection: close\r\n{}\r\n",
        path, kId, port, fields);
  }

  async::asio::io_context loop;
  http::ServerLimits limits;
  FakeDirectory directory;
  Options options;
  std::map<std::uint16_t, http::Handler> services;
  int dials = 0;
  int guest_connections_ended = 0;
  async::Scope scope;
  async::Event happened;
  std::unique_ptr<Gateway> gateway_;
};

// Answers with the request as the service saw it.
Task<> describe(http::Exchange& exchange) {
  auto& request = exchange.request();
  auto text = fmt::format("{} {} @{}\n", request.method, request.target, request.authority);
  for (const auto& field : request.headers) text += field.name + "=" + field.value + "\n";
  auto body = co_await exchange.read_all(1 << 20);
  text += "body=" + (body ? *body : "(broken)");
  http::ResponseHead head;
  head.headers.add("x-service", "yes");
  (void)co_await exchange.respond(std::move(head), std::move(text));
}

TEST_F(GatewayTest, ForwardsByHeaders) {
  services[8080] = describe;
  auto answer = ask(get("/a?b=c", "X-Mine: 1\r\nX-Atoll-Internal: 0011223344\r\n"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("x-service: yes"));
  EXPECT_THAT(answer, HasSubstr("GET /a?b=c @localhost\n"));
  EXPECT_THAT(answer, HasSubstr("x-mine=1\n"));
  EXPECT_THAT(answer, Not(HasSubstr("e2b-sandbox")));
  EXPECT_THAT(answer, Not(HasSubstr("x-atoll-internal")));
}

TEST_F(GatewayTest, ForwardsByHostName) {
  services[8080] = describe;
  auto answer =
      ask(fmt::format("POST /up HTTP/1.1\r\nHost: 8080-{}.atoll.localhost:7400\r\nConnection: close\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
                      kId));
  EXPECT_THAT(answer, HasSubstr(fmt::format("POST /up @8080-{}.atoll.localhost:7400", kId)));
  EXPECT_THAT(answer, HasSubstr("body=abcde"));
}

TEST_F(GatewayTest, WantsWhatNamesASandboxOnly) {
  http::RequestHead head;
  head.authority = "localhost:7400";
  head.target = "/v2/sandboxes";
  EXPECT_FALSE(gateway().wants(head));
  head.headers.add("e2b-sandbox-id", kId);
  EXPECT_TRUE(gateway().wants(head));
}

TEST_F(GatewayTest, UnknownSandbox) {
  directory.routes.clear();
  auto answer = ask(get("/"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 502 "));
  EXPECT_THAT(answer, HasSubstr(fmt::format(
                          R"({{"sandboxId":"{}","message":"The sandbox was not found","code":502}})", kId)));
  EXPECT_THAT(ask(get("/health", "", model::kGuestPort)), HasSubstr("The sandbox was not found"));
}

TEST_F(GatewayTest, BrowsersGetAPage) {
  directory.routes.clear();
  auto answer = ask(get("/", "Accept: text/html,*/*;q=0.8\r\n"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 502 "));
  EXPECT_THAT(answer, HasSubstr("content-type: text/html"));
  EXPECT_THAT(answer, HasSubstr("The sandbox was not found"));
}

TEST_F(GatewayTest, ClosedPort) {
  auto answer = ask(get("/"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 502 "));
  EXPECT_THAT(answer,
              HasSubstr(R"("message":"The sandbox is running but port is not open","port":8080,"code":502)"));
  EXPECT_GT(dials, 2) << "a port that is just opening deserves another try";
}

TEST_F(GatewayTest, BadRequests) {
  EXPECT_THAT(ask("GET / HTTP/1.1\r\nHost: nope.atoll.localhost\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask(get("/", "E2b-Sandbox-Port: 81\r\n")), StartsWith("HTTP/1.1 400 "));
}

TEST_F(GatewayTest, StatesInBetweenAnswer409) {
  for (auto state : {model::State::kCreating, model::State::kPausing, model::State::kResuming}) {
    directory.add().state = state;
    EXPECT_THAT(ask(get("/")), StartsWith("HTTP/1.1 409 "));
  }
  for (auto state :
       {model::State::kPaused, model::State::kStopping, model::State::kFailed, model::State::kReady}) {
    directory.add().state = state;
    EXPECT_THAT(ask(get("/")), HasSubstr("The sandbox was not found"));
  }
}

// A paused sandbox of this kind; any traffic wakes it.
control::Route& fall_asleep(FakeDirectory& directory, model::State state = model::State::kPaused) {
  auto& route = directory.add();
  route.state = state;
  route.auto_resume = true;
  return route;
}

TEST_F(GatewayTest, TrafficWakesAndIsHeldUntilItRuns) {
  services[8080] = describe;
  for (auto state : {model::State::kPaused, model::State::kPausing, model::State::kResuming}) {
    fall_asleep(directory, state);
    auto answer = ask(
        fmt::format("POST /up HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: 8080\r\n"
                    "Connection: close\r\nContent-Length: 5\r\n\r\nfirst",
                    kId));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
    EXPECT_THAT(answer, HasSubstr("body=first"));
  }
  EXPECT_EQ(directory.wakes, 3);
}

TEST_F(GatewayTest, WhatMayNotComeInDoesNotWake) {
  fall_asleep(directory).traffic_token = Secret("right");
  EXPECT_THAT(ask(get("/")), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(ask(get("/init", "", model::kGuestPort)), StartsWith("HTTP/1.1 404 "));
  EXPECT_EQ(directory.wakes, 0);
}

TEST_F(GatewayTest, ASandboxThatDoesNotWakeIsTold) {
  fall_asleep(directory);
  directory.wakeable = false;
  EXPECT_THAT(ask(get("/")),
              testing::AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("not be resumed: no room")));
}

TEST_F(GatewayTest, TrafficTokenGuardsServicesButNotTheGuestDaemon) {
  services[8080] = describe;
  services[model::kGuestPort] = describe;
  directory.add().traffic_token = Secret("right");
  EXPECT_THAT(ask(get("/")), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(ask(get("/", "E2b-Traffic-Access-Token: wrong\r\n")), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(ask(get("/", "E2b-Traffic-Access-Token: right\r\nE2b-Traffic-Access-Token: right\r\n")),
              StartsWith("HTTP/1.1 403 "));
  EXPECT_EQ(dials, 0);
  auto answer = ask(get("/", "E2b-Traffic-Access-Token: right\r\n"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, Not(HasSubstr("traffic-access-token")));
  EXPECT_THAT(ask(get("/health", "", model::kGuestPort)), StartsWith("HTTP/1.1 200 "));
}

TEST_F(GatewayTest, InternalCallsOfTheGuestDaemonAreNotThere) {
  services[model::kGuestPort] = describe;
  services[8080] = describe;
  for (const char* path : {"/init", "/%69nit", "//freeze", "/x/../fsthaw"}) {
    EXPECT_THAT(ask(get(path, "", model::kGuestPort)), StartsWith("HTTP/1.1 404 ")) << path;
  }
  EXPECT_EQ(dials, 0);
  EXPECT_THAT(ask(get("/init", "", 8080)), StartsWith("HTTP/1.1 200 ")) << "a service may have such a path";
}

TEST_F(GatewayTest, SignedUrlsFindTheirSandbox) {
  services[model::kGuestPort] = describe;
  auto good =
      ask("GET /files?path=a.txt&username=u&signature=v1_good&signature_expiration=5 HTTP/1.1\r\nHost: "
          "127.0.0.1:7400\r\n"
          "Connection: close\r\n\r\n");
  EXPECT_THAT(good, HasSubstr("GET /files?path=a.txt&username=u&signature=v1_good&signature_expiration=5"));
  auto bad =
      ask("GET /files?path=a.txt&signature=v1_bad HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(bad, StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(bad, HasSubstr(R"({"message":"invalid signature","code":401})"));
}

TEST_F(GatewayTest, ReachesServersOnTheSandboxsLoopback) {
  struct Daemon {
    static Task<> handle(http::Exchange& exchange, std::string& seen, const http::ServerLimits& limits,
                         http::Handler inner) {
      seen = exchange.request().target + " " +
             std::string(exchange.request().headers.find("x-atoll-internal").value_or(""));
      auto raw = co_await exchange.upgrade(http::ResponseHead());
      if (raw) co_await http::serve_http1(std::move(*raw), "", false, limits, inner);
    }
  };
  std::string seen;
  http::Handler inner = describe;
  services[model::kGuestPort] = [&](http::Exchange& e) { return Daemon::handle(e, seen, limits, inner); };
  EXPECT_THAT(ask(get("/deep")), HasSubstr("GET /deep @localhost"));
  EXPECT_EQ(seen, fmt::format("127.0.0.1:8080 {}", kInternalToken));
}

TEST_F(GatewayTest, GuestDaemonThatRefusesTheTunnelMeansClosed) {
  services[model::kGuestPort] =
      describe;  // 200 only for CONNECT would be a tunnel; this one answers with a body
  struct Refuse {
    static Task<> handle(http::Exchange& exchange) {
      http::ResponseHead head;
      head.status = 502;
      (void)co_await exchange.respond(std::move(head), "refused");
    }
  };
  services[model::kGuestPort] = Refuse::handle;
  EXPECT_THAT(ask(get("/")), HasSubstr("port is not open"));
}

TEST_F(GatewayTest, TooManyRequestsOfOneSandbox) {
  options.requests_per_sandbox = 1;
  struct Hold {
    static Task<> handle(http::Exchange& exchange) { co_await exchange.wait_client_gone(); }
  };
  services[8080] = Hold::handle;
  auto first = connect();
  auto request = get("/");
  auto both = [&]() -> Task<std::string> {
    (void)co_await first->write_all(request);
    while (gateway().active() == 0) co_await async::yield();
    co_return co_await exchange_bytes(request);
  };
  auto answer = run(both());
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 429 "));
  EXPECT_THAT(answer, HasSubstr(R"("code":429)"));
}

Task<> stream_slowly(http::Exchange& exchange) {
  (void)co_await exchange.send_head(http::ResponseHead());
  (void)co_await exchange.write("first");
  co_await exchange.wait_client_gone();
}

TEST_F(GatewayTest, KillMidStreamBreaksTheAnswerOff) {
  services[8080] = stream_slowly;
  auto stream = connect();
  auto request = get("/");
  auto script = [&]() -> Task<std::string> {
    (void)co_await stream->write_all(request);
    auto begin = co_await read_until(*stream, "first");
    directory.kill();
    co_return begin + co_await read_to_end(*stream);
  };
  auto all = run(script());
  EXPECT_THAT(all, HasSubstr("first"));
  EXPECT_THAT(all, Not(HasSubstr("\r\n0\r\n"))) << "a clean end would be a lie";
  EXPECT_TRUE(run(all_ended()));
  EXPECT_THAT(ask(get("/")), HasSubstr("The sandbox was not found"));
}

TEST_F(GatewayTest, KillBeforeTheAnswerIs502) {
  struct Hold {
    static Task<> handle(http::Exchange& exchange) { co_await exchange.wait_client_gone(); }
  };
  services[8080] = Hold::handle;
  auto stream = connect();
  auto request = get("/");
  auto script = [&]() -> Task<std::string> {
    (void)co_await stream->write_all(request);
    while (gateway().active() == 0 || dials == 0) co_await async::yield();
    for (int i = 0; i < 10; ++i) co_await async::yield();
    directory.kill();
    co_return co_await read_to_end(*stream);
  };
  auto all = run(script());
  EXPECT_THAT(all, StartsWith("HTTP/1.1 502 "));
  EXPECT_THAT(all, HasSubstr("The sandbox was not found"));
}

TEST_F(GatewayTest, SilentGuestDaemonIs504) {
  options.agent_silence = std::chrono::milliseconds(20);
  services[model::kGuestPort] = [](http::Exchange& exchange) { return never(exchange); };
  auto answer =
      ask(fmt::format("POST /process.Process/Start HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {}\r\n"
                      "E2b-Sandbox-Port: 49983\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}",
                      kId));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 504"));
  EXPECT_THAT(answer, HasSubstr("guest daemon does not answer"));
  EXPECT_THAT(ask(get("/")), StartsWith("HTTP/1.1 504"));  // a closed port, asked for on its loopback
}

TEST_F(GatewayTest, InputMayWaitForTheProcess) {
  options.agent_silence = std::chrono::nanoseconds(1);
  services[model::kGuestPort] = describe;
  auto call = [](std::string_view method) {
    return fmt::format(
        "POST /process.Process/{} HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {}\r\n"
        "E2b-Sandbox-Port: 49983\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}",
        method, kId);
  };
  EXPECT_THAT(ask(call("SendInput")), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask(call("SendSignal")), StartsWith("HTTP/1.1 504 "));
}

TEST_F(GatewayTest, GuestThatBreaksMidAnswerIsPassedOnAsBroken) {
  struct Break {
    static Task<> handle(http::Exchange& exchange) {
      (void)co_await exchange.send_head(http::ResponseHead());
      (void)co_await exchange.write("half");
      exchange.abort();
    }
  };
  services[8080] = Break::handle;
  auto all = ask(get("/"));
  EXPECT_THAT(all, Not(HasSubstr("\r\n0\r\n")));
}

TEST_F(GatewayTest, ClientThatLeavesClosesTheGuestsSide) {
  services[8080] = stream_slowly;
  auto stream = connect();
  auto request = get("/");
  auto script = [&]() -> Task<int> {
    (void)co_await stream->write_all(request);
    (void)co_await read_until(*stream, "first");
    stream->close();
    while (guest_connections_ended == 0) co_await happened.wait();
    co_return guest_connections_ended;
  };
  EXPECT_EQ(run(script()), 1);
}

// A hostile sandbox's guest daemon takes the call for a closed port and never answers.
TEST_F(GatewayTest, ClientThatLeavesASilentTunnelLeavesNothingBehind) {
  bool asked = false;
  services[model::kGuestPort] = [&](http::Exchange& exchange) {
    asked = true;
    happened.notify_all();
    return never(exchange);
  };
  auto stream = connect();
  auto request = get("/");
  auto script = [&]() -> Task<int> {
    (void)co_await stream->write_all(request);
    while (!asked) co_await happened.wait();
    stream->close();
    while (guest_connections_ended == 0 || gateway().active() > 0) co_await happened.wait();
    co_return guest_connections_ended;
  };
  EXPECT_EQ(run(script()), 1);
}

// Sends each piece back as it comes.
Task<> echo(http::Exchange& exchange) {
  (void)co_await exchange.send_head(http::ResponseHead());
  std::string part(1024, 0);
  while (true) {
    auto got = co_await exchange.read_body(part);
    if (!got || *got == 0) break;
    (void)co_await exchange.write(std::string_view(part).substr(0, *got));
  }
  (void)co_await exchange.finish();
}

TEST_F(GatewayTest, StreamsBothWaysAtTheSameTime) {
  services[8080] = echo;
  auto stream = connect();
  auto request = fmt::format(
      "POST / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: 8080\r\n"
      "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
      kId);
  auto script = [&]() -> Task<std::string> {
    (void)co_await stream->write_all(request);
    (void)co_await stream->write_all("3\r\none\r\n");
    auto out = co_await read_until(*stream, "one");
    (void)co_await stream->write_all("3\r\ntwo\r\n");
    out += co_await read_until(*stream, "two");
    (void)co_await stream->write_all("0\r\n\r\n");
    co_return out + co_await read_to_end(*stream);
  };
  auto all = run(script());
  EXPECT_THAT(all, HasSubstr("\r\n0\r\n\r\n"));
}

TEST_F(GatewayTest, LargeBodiesArriveWhole) {
  std::string big(3'000'000, 'x');
  struct Big {
    static Task<> handle(http::Exchange& exchange, const std::string& body) {
      (void)co_await exchange.respond(http::ResponseHead(), body);
    }
  };
  services[8080] = [&](http::Exchange& e) { return Big::handle(e, big); };
  auto all = ask(get("/"));
  EXPECT_THAT(all, testing::EndsWith(big.substr(0, 1000)));
  EXPECT_GT(all.size(), big.size());
}

TEST_F(GatewayTest, AnEarlyAnswerDoesNotWaitForTheBody) {
  struct Early {
    static Task<> handle(http::Exchange& exchange) {
      http::ResponseHead head;
      head.status = 413;
      (void)co_await exchange.respond(std::move(head), "too much");
    }
  };
  services[8080] = Early::handle;
  auto stream = connect();
  auto request = fmt::format(
      "POST / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: 8080\r\n"
      "Content-Length: 1000\r\n\r\nabc",
      kId);
  auto script = [&]() -> Task<std::string> {
    (void)co_await stream->write_all(request);
    co_return co_await read_until(*stream, "too much");
  };
  EXPECT_THAT(run(script()), StartsWith("HTTP/1.1 413 "));
}

TEST_F(GatewayTest, UpgradesArePumpedBothWaysWithHalfClose) {
  struct Raw {
    static Task<> handle(http::Exchange& exchange, std::string& heard) {
      http::ResponseHead head;
      head.status = 101;
      head.headers = {{"connection", "upgrade"}, {"upgrade", "chat"}};
      auto raw = co_await exchange.upgrade(std::move(head));
      if (!raw) co_return;
      heard = co_await read_to_end(**raw);
      (void)co_await (*raw)->write_all("heard " + heard);
      (void)co_await (*raw)->shutdown_write();
    }
  };
  std::string heard;
  services[8080] = [&](http::Exchange& e) { return Raw::handle(e, heard); };
  auto stream = connect();
  auto request = fmt::format(
      "GET /chat HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: 8080\r\n"
      "Connection: Upgrade\r\nUpgrade: chat\r\n\r\nearly ",
      kId);
  auto script = [&]() -> Task<std::string> {
    (void)co_await stream->write_all(request);
    auto out = co_await read_until(*stream, "\r\n\r\n");
    (void)co_await stream->write_all("late");
    (void)co_await stream->shutdown_write();
    co_return out + co_await read_to_end(*stream);
  };
  auto all = run(script());
  EXPECT_THAT(all, StartsWith("HTTP/1.1 101 "));
  EXPECT_THAT(all, HasSubstr("upgrade: chat"));
  EXPECT_THAT(all, HasSubstr("heard early late")) << heard;
}

TEST_F(GatewayTest, ASandboxCannotSwitchProtocolsUnasked) {
  struct Raw {
    static Task<> handle(http::Exchange& exchange) {
      http::ResponseHead head;
      head.status = 101;
      (void)co_await exchange.upgrade(std::move(head));
    }
  };
  services[8080] = Raw::handle;
  EXPECT_THAT(ask(get("/")), StartsWith("HTTP/1.1 502 "));
}

TEST_F(GatewayTest, KeepsConnectionsForRepeatableRequestsOnly) {
  services[8080] = describe;
  auto twice = [&](std::string request) -> Task<std::string> {
    auto stream = connect();
    (void)co_await stream->write_all(request);
    auto out = co_await read_until(*stream, "body=");
    (void)co_await stream->write_all(request);
    co_return out + co_await read_until(*stream, "body=");
  };
  auto fields = fmt::format("Host: localhost\r\nE2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: 8080\r\n", kId);
  run(twice("GET / HTTP/1.1\r\n" + fields + "\r\n"));
  EXPECT_EQ(dials, 1);
  run(twice("POST / HTTP/1.1\r\n" + fields + "Content-Length: 0\r\n\r\n"));
  EXPECT_EQ(dials, 3);
}

TEST_F(GatewayTest, AnewGenerationGetsNewConnections) {
  services[8080] = describe;
  EXPECT_THAT(ask(get("/")), StartsWith("HTTP/1.1 200 "));
  directory.add(2);
  EXPECT_THAT(ask(get("/")), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(dials, 2);
}

TEST_F(GatewayTest, ClientsCannotOpenTunnels) {
  services[8080] = describe;
  auto answer =
      ask(fmt::format("CONNECT localhost:22 HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {}\r\n"
                      "E2b-Sandbox-Port: 8080\r\nConnection: close\r\n\r\n",
                      kId));
  EXPECT_THAT(answer, Not(StartsWith("HTTP/1.1 200 ")));
  EXPECT_EQ(dials, 0);
}

}  // namespace
}  // namespace atl::ingress
