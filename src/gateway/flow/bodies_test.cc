// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/bodies.h"

#include "gateway/upstream/world_for_test.h"

namespace atl::gateway {
namespace {

using namespace testing;
using Kind = TestServer::Kind;

// A server that holds the body of each request before it answers, and says why it does not.
struct Holding {
  explicit Holding(FairShare& h, std::size_t m) : held(h), most(m) {}

  Task<> handle(http::Exchange& exchange) {
    auto body = co_await hold_body(exchange, held, exchange.request().target, most, memory.of("a"), within);
    http::ResponseHead head;
    if (!body) {
      head.headers.add("x-word", std::string(body.error().word()));
      head.status = body.error().code() == Code::kTooLarge ? 413 : 503;
    } else {
      head.headers.add("x-held", std::to_string(held.used()));
    }
    std::string text;
    if (body) text = std::move(body->bytes);
    (void)co_await exchange.respond(std::move(head), std::move(text));
  }

  FairShare& held;
  std::size_t most;
  FairShare memory{1 << 20, 1 << 20};
  Steady::duration within = kHoldWithin;
};

http::Handler handler_of(Holding& holding) {
  return [&holding](http::Exchange& exchange) { return holding.handle(exchange); };
}

TEST(HoldBody, HoldsItAndGivesTheRoomBack) {
  FairShare held(1 << 20, 1 << 20);
  Holding holding(held, 100'000);
  World world;
  TestServer server(world.scope, world.loop.get_executor(), Kind::kPlain, handler_of(holding));
  std::string body(70'000, 'x');
  world.run([&](World& w) -> Task<> {
    Route route = w.route(server.port);
    route.tls = false;
    auto answer = co_await ask(w.upstream, route, request("POST", "/a"), body);
    EXPECT_TRUE(answer.ok());
    if (!answer.ok()) co_return;
    EXPECT_EQ(answer->body, body);
    EXPECT_EQ(answer->head.headers.find("x-held"), std::to_string(body.size()));
    server.close();
  });
  EXPECT_EQ(held.used(), 0u);
}

TEST(HoldBody, ABodyWithoutRoomIsRefusedAndTheOthersKeepTheirs) {
  FairShare held(100'000, 60'000);
  auto greedy = held.take("/greedy", 40'000);
  Holding holding(held, 50'000);
  World world;
  TestServer server(world.scope, world.loop.get_executor(), Kind::kPlain, handler_of(holding));
  world.run([&](World& w) -> Task<> {
    Route route = w.route(server.port);
    route.tls = false;
    auto more = co_await ask(w.upstream, route, request("POST", "/greedy"), std::string(40'000, 'x'));
    EXPECT_TRUE(more.ok() && more->head.status == 503);
    if (more.ok()) EXPECT_EQ(more->head.headers.find("x-word"), "body_memory");
    auto other = co_await ask(w.upstream, route, request("POST", "/other"), std::string(20'000, 'x'));
    EXPECT_TRUE(other.ok() && other->head.status == 200);
    auto large = co_await ask(w.upstream, route, request("POST", "/other"), std::string(50'001, 'x'));
    EXPECT_TRUE(large.ok() && large->head.status == 413);
    server.close();
  });
  EXPECT_EQ(held.used(), 40'000u);
}

TEST(HoldBody, ABodyThatTakesTooLongIsRefused) {
  FairShare held(1 << 20, 1 << 20);
  Holding holding(held, 100'000);
  holding.within = Steady::duration::zero();
  World world;
  TestServer server(world.scope, world.loop.get_executor(), Kind::kPlain, handler_of(holding));
  world.run([&](World& w) -> Task<> {
    Route route = w.route(server.port);
    route.tls = false;
    auto answer = co_await ask(w.upstream, route, request("POST", "/slow"), std::string(1000, 'x'));
    EXPECT_TRUE(answer.ok());
    if (answer.ok()) EXPECT_EQ(answer->head.headers.find("x-word"), "body_too_slow");
    server.close();
  });
  EXPECT_EQ(held.used(), 0u);
}

}  // namespace
}  // namespace atl::gateway
