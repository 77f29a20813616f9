// SPDX-License-Identifier: Apache-2.0
//
// Requests that pass are counted as work of their sandbox, so that it does not fall asleep meanwhile.
#include <gtest/gtest.h>

#include "ingress/gateway.h"
#include "net/tcp.h"
#include "support/fake_directory.h"

namespace atl::ingress {
namespace {

class WorkTest : public testing::Test {
 protected:
  WorkTest() : scope_(loop_.get_executor()) {
    directory_.add();
    Options options;
    options.domain = "atoll.localhost:7400";
    options.requests_per_sandbox = 3;
    options.dial = [this](control::RoutePtr, std::uint16_t) { return dial(); };
    gateway_ = std::make_unique<Gateway>(directory_, std::move(options));
  }
  ~WorkTest() override {
    scope_.cancel();
    while (scope_.size() > 0 && loop_.run_one_for(std::chrono::seconds(10)) > 0) continue;
  }

  // A guest that begins an answer and leaves it open.
  static Task<> open_stream(http::Exchange& exchange) {
    (void)co_await exchange.send_head(http::ResponseHead());
    (void)co_await exchange.write("a");
    co_await exchange.wait_client_gone();
  }
  Task<> serve(net::StreamPtr stream, http::Handler handler) {
    co_await http::serve_http1(std::move(stream), "", false, limits_, handler);
  }
  Task<Result<net::StreamPtr>> dial() {
    auto [ours, theirs] = net::stream_pair(loop_.get_executor());
    scope_.spawn("guest", serve(std::move(theirs), open_stream));
    co_return std::move(ours);
  }
  net::StreamPtr connect() {
    auto [client, server] = net::stream_pair(loop_.get_executor());
    http::Handler handler = [this](http::Exchange& exchange) { return gateway_->handle(exchange); };
    scope_.spawn("front", serve(std::move(server), std::move(handler)));
    return std::move(client);
  }
  static Task<> send(net::Stream& stream) {
    std::string request = fmt::format(
        "GET / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: 8080\r\n\r\n", kId);
    EXPECT_TRUE((co_await stream.write_all(request)).ok());
  }
  static Task<> receive(net::Stream& stream, std::string& out) {
    std::string part(4096, 0);
    auto got = co_await stream.read_some(part);
    if (got) out = part.substr(0, *got);
  }
  // Runs the loop until `condition` holds; gives up after 20 s.
  template <class Condition>
  bool until(Condition condition) {
    auto limit = Steady::now() + std::chrono::seconds(20);
    while (!condition() && Steady::now() < limit) {
      loop_.restart();
      loop_.run_one_for(std::chrono::milliseconds(20));
    }
    return condition();
  }
  control::Activity& activity() { return *directory_.routes.at(kId)->activity; }

  async::asio::io_context loop_;
  async::Scope scope_;
  http::ServerLimits limits_;
  FakeDirectory directory_;
  std::unique_ptr<Gateway> gateway_;
};

TEST_F(WorkTest, WhatWaitsForASleepingOneIsAmongItsRequests) {
  auto& route = directory_.add();
  route.state = model::State::kPaused;
  route.auto_resume = true;
  directory_.slow = true;
  std::vector<net::StreamPtr> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(connect());
    scope_.spawn("request", send(*clients.back()));
  }
  EXPECT_TRUE(until([&] { return gateway_->active() == 3; }));
  auto one_more = connect();
  std::string answer;
  scope_.spawn("request", send(*one_more));
  scope_.spawn("answer", receive(*one_more, answer));
  EXPECT_TRUE(until([&] { return !answer.empty(); }));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 429 ")) << answer;
  directory_.slow = false;
  EXPECT_TRUE(until([&] { return activity().requests() == 3; })) << "these are served";
}

TEST_F(WorkTest, AStreamIsWorkFromItsHeadToItsEndWithOrWithoutBytes) {
  EXPECT_EQ(activity().requests(), 0u);
  auto first = connect(), second = connect();
  scope_.spawn("request", send(*first));
  EXPECT_TRUE(until([&] { return activity().requests() == 1; }));
  EXPECT_EQ(activity().work(), control::Work::kRequest);
  scope_.spawn("request", send(*second));
  EXPECT_TRUE(until([&] { return activity().requests() == 2; }));
  first.reset();
  EXPECT_TRUE(until([&] { return activity().requests() == 1; }));
  second.reset();
  EXPECT_TRUE(until([&] { return activity().requests() == 0; }));
  EXPECT_EQ(activity().work(), control::Work::kNone);
  EXPECT_EQ(activity().begun(), 2u);
}

TEST_F(WorkTest, WhatIsRefusedAtTheDoorIsNone) {
  auto route = std::make_shared<control::Route>(*directory_.routes.at(kId));
  route->traffic_token = Secret("t");
  directory_.routes[kId] = route;
  auto client = connect();
  scope_.spawn("request", send(*client));
  std::string answer(1024, 0);
  bool answered = false;
  auto read = [](net::Stream& from, std::string& out, bool& done) -> Task<> {
    (void)co_await from.read_some(out);
    done = true;
  };
  scope_.spawn("answer", read(*client, answer, answered));
  EXPECT_TRUE(until([&] { return answered; }));
  EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 403");
  EXPECT_EQ(activity().begun(), 0u);
}

}  // namespace
}  // namespace atl::ingress
