// SPDX-License-Identifier: Apache-2.0
#include "control/egress_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/server.h"
#include "net/tcp.h"

namespace atl::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// A gateway that writes down what it is told.
class EgressLinkTest : public testing::Test {
 protected:
  EgressLinkTest() : scope(loop.get_executor()), heard(loop.get_executor()) {}
  ~EgressLinkTest() override {
    run(link.stop());
    scope.cancel();
    run(scope.join());
  }
  Task<Result<net::StreamPtr>> dial() {
    if (down) co_return make_error(Code::kUnavailable, "no gateway");
    auto [ours, theirs] = net::stream_pair(loop.get_executor());
    far_end = theirs.get();
    scope.spawn("gateway", serve(std::move(theirs)));
    co_return std::move(ours);
  }
  Task<> serve(net::StreamPtr stream) {
    http::Handler handler = [this](http::Exchange& exchange) { return take(exchange); };
    co_await http::serve_http1(std::move(stream), "", false, limits, handler);
  }
  Task<> take(http::Exchange& exchange) {
    auto body = co_await exchange.read_all(1 << 20);
    told.push_back(fmt::format("{} {} {}", exchange.request().method, exchange.request().target,
                               body.ok() ? *body : ""));
    http::ResponseHead head;
    head.status = status;
    heard.notify_all();
    std::string text;
    if (exchange.request().target.starts_with("/v1/alive")) text = std::exchange(news_text, "{}");
    if (exchange.request().method == "PUT") text = put_text;
    if (exchange.request().method == "GET") text = R"({"requests":3,"approvals":1,"quietMs":250})";
    (void)co_await exchange.respond(head, std::move(text));
  }
  Task<Result<void>> store(std::vector<model::Event> events) {
    if (!stores) co_return make_error(Code::kNoSpace, "full");
    for (model::Event& event : events) stored.push_back(std::move(event));
    co_return success();
  }
  static Task<> mark(Task<> task, bool* done) {
    co_await std::move(task);
    *done = true;
  }
  void run(Task<> task) {
    bool done = false;
    async::asio::co_spawn(loop, mark(std::move(task), &done), async::asio::detached);
    until([&] { return done; });
  }
  template <class Condition>
  void until(Condition condition) {
    auto end = Steady::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (Steady::now() > end) return ADD_FAILURE() << "the condition was not reached";
      loop.restart();
      loop.run_one_for(std::chrono::milliseconds(20));
    }
  }
  using Answered = std::optional<Result<EgressAnswer>>;
  Task<> keep(Task<Result<EgressAnswer>> task, Answered* out) { *out = co_await std::move(task); }
  Result<EgressAnswer> know(EgressFacts one) {
    Answered out;
    async::asio::co_spawn(loop, keep(link.make_known(std::move(one)), &out), async::asio::detached);
    until([&] { return out.has_value(); });
    return std::move(*out);
  }
  static EgressFacts facts(const std::string& id, std::uint32_t slot) {
    EgressFacts out;
    out.sandbox = id;
    out.tenant = "t";
    out.template_id = "base";
    out.generation = 3;
    out.slot = slot;
    out.network.deny = {*model::parse_cidr("1.2.3.0/24")};
    return out;
  }
  // Without heartbeats.
  std::vector<std::string> news() const {
    std::vector<std::string> out;
    for (const std::string& line : told) {
      if (!line.starts_with("POST /v1/alive")) out.push_back(line);
    }
    return out;
  }

  async::asio::io_context loop;
  async::Scope scope;
  async::Event heard;
  http::ServerLimits limits;
  std::vector<std::string> told;
  std::vector<EgressFacts> all;
  net::Stream* far_end = nullptr;
  int status = 200;
  std::string news_text = "{}";
  std::vector<model::Event> stored;
  bool stores = true;
  bool down = false;
  int begun = 0;
  std::string put_text;
  EgressLink link{loop.get_executor(), [this] { return dial(); }, [this] { return all; },
                  [this](std::vector<model::Event> events) { return store(std::move(events)); },
                  [this] { ++begun; }};
};

TEST_F(EgressLinkTest, BeginsWithEverythingThenTellsChangesInOrder) {
  all = {facts("a", 1)};
  link.start();
  until([&] { return link.connected(); });
  link.changed(facts("b", 2));
  link.gone("a", 3);
  until([&] { return news().size() == 3; });
  EXPECT_THAT(news(), ElementsAre(StartsWith("POST /v1/sync {\"sandboxes\":[{\"id\":\"a\""),
                                  StartsWith("PUT /v1/sandboxes/b "),
                                  StartsWith("DELETE /v1/sandboxes/a?generation=3")));
  EXPECT_THAT(news()[1], HasSubstr(R"("deny":["1.2.3.0/24"])"));
  EXPECT_THAT(news()[1], HasSubstr(R"("generation":3,"slot":2,"state":"running")"));
}

TEST_F(EgressLinkTest, TellsLabelsAndStoresThoseOfEvents) {
  news_text =
      R"({"events":[{"at":1,"sandbox":"a","type":"egress.denied","target":"x:1","rule":"r","label":"git"}],)"
      R"("last":1})";
  EgressFacts one = facts("a", 1);
  one.labels = {"npm", "git"};
  all = {one};
  link.start();
  until([&] { return !stored.empty(); });
  EXPECT_THAT(news()[0], HasSubstr(R"("labels":["npm","git"])"));
  EXPECT_EQ(stored[0].data, R"({"target":"x:1","rule":"r","label":"git"})");
}

TEST_F(EgressLinkTest, WaitsUntilTheGatewayKnows) {
  link.start();
  EXPECT_TRUE(know(facts("a", 1)).ok());
  EXPECT_THAT(news().back(), testing::AnyOf(HasSubstr("/v1/sandboxes/a"), HasSubstr("/v1/sync")));
}

TEST_F(EgressLinkTest, TellsWhatTheGatewaySaysAndEachTimeThereIsANewOne) {
  put_text = R"({"authority":{"pem":"P","hash":"H","root":"R"}})";
  link.start();
  until([&] { return link.connected(); });
  EXPECT_EQ(begun, 1);
  auto answer = know(facts("a", 1));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->authority_pem + answer->authority_hash + answer->authority_root, "PHR");
  put_text = "{}";
  EXPECT_EQ(know(facts("a", 1))->authority_pem, "");
  far_end->close();
  until([&] { return begun == 2; });
}

TEST_F(EgressLinkTest, AsksForWhatAGuestIsGivenAndPassesItOn) {
  put_text = R"({"authority":{"pem":"P","hash":"H"},"token":"atoll_st_x","underWay":2,)"
             R"("environment":{"A":"b","C":1}})";
  link.start();
  auto plain = facts("a", 1);
  auto hand_over = plain;
  hand_over.hand_over = true;
  ASSERT_TRUE(know(plain).ok());
  EXPECT_THAT(news().back(), testing::Not(HasSubstr("handOver")));
  auto told = know(hand_over);
  ASSERT_TRUE(told.ok());
  EXPECT_THAT(news().back(), HasSubstr(R"("handOver":true)"));
  EXPECT_EQ(told->authority_pem + told->authority_hash, "PH");
  EXPECT_EQ(told->token.reveal(), "atoll_st_x");
  EXPECT_EQ(told->environment, (model::StringMap{{"A", "b"}}));
  EXPECT_EQ(told->under_way, 2u);
}

TEST_F(EgressLinkTest, AsksWhatIsUnderWay) {
  link.start();
  std::optional<Result<EgressWork>> work;
  auto ask = [&]() -> Task<> { work = co_await link.work_of("a"); };
  run(ask());
  ASSERT_TRUE(work && work->ok());
  EXPECT_THAT(news().back(), StartsWith("GET /v1/sandboxes/a/work"));
  EXPECT_EQ((*work)->requests, 3u);
  EXPECT_EQ((*work)->approvals, 1u);
  EXPECT_EQ((*work)->quiet, Millis(250));
}

TEST_F(EgressLinkTest, SaysSoWhenThereIsNoGateway) {
  down = true;
  link.start();
  auto known = know(facts("a", 1));
  ASSERT_FALSE(known.ok());
  EXPECT_EQ(known.error().word(), "gateway_unavailable");
}

TEST_F(EgressLinkTest, TellsEverythingToTheNextGateway) {
  link.start();
  until([&] { return link.connected(); });
  far_end->close();
  all = {facts("c", 4)};
  until([&] { return news().size() == 2; });
  EXPECT_THAT(news()[1], HasSubstr("\"id\":\"c\""));
  until([&] { return link.connected(); });
}

TEST_F(EgressLinkTest, OneRefusedSandboxDoesNotEndTheLink) {
  link.start();
  until([&] { return link.connected(); });
  status = 400;
  link.changed(facts("a", 1));
  until([&] { return news().size() == 2; });
  status = 200;
  EXPECT_TRUE(know(facts("b", 2)).ok());
  EXPECT_EQ(news().size(), 3u);  // no new sync
}

TEST_F(EgressLinkTest, StoresEventsAndSaysWhichItHas) {
  news_text = R"({"events":[{"at":5,"tenant":"t","sandbox":"a","type":"egress.denied","target":"x:1",)"
              R"("rule":"r","reason":"no"},{"at":6,"type":"approval.approved","target":"y","rule":"r",)"
              R"("approval":"apr_1","decidedBy":"me"}],"last":9,"lost":0})";
  link.start();
  until([&] { return stored.size() == 2; });
  EXPECT_EQ(stored[0].type, "egress.denied");
  EXPECT_EQ(stored[0].message, "no");
  EXPECT_EQ(stored[0].data, R"({"target":"x:1","rule":"r"})");
  EXPECT_EQ(stored[1].data, R"({"target":"y","rule":"r","approval":"apr_1","decidedBy":"me"})");
  until([&] { return told.back().starts_with("POST /v1/alive?have=9"); });
}

TEST_F(EgressLinkTest, EventsThatWereNotStoredAreAskedForAgain) {
  stores = false;
  news_text = R"({"events":[{"at":5,"type":"egress.denied"}],"last":9})";
  link.start();
  until([&] { return told.size() == 3; });
  EXPECT_THAT(told.back(), StartsWith("POST /v1/alive?have=0"));
}

TEST_F(EgressLinkTest, WithoutAGatewayNothingWaits) {
  EgressLink none(
      loop.get_executor(), nullptr, [] { return std::vector<EgressFacts>(); },
      [this](std::vector<model::Event> events) { return store(std::move(events)); });
  none.start();
  Answered out;
  async::asio::co_spawn(loop, keep(none.make_known(facts("a", 1)), &out), async::asio::detached);
  until([&] { return out.has_value(); });
  EXPECT_TRUE(out->ok());
  run(none.stop());
}

}  // namespace
}  // namespace atl::control
