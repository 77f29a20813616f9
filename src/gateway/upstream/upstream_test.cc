// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/world_for_test.h"

namespace atl::gateway {
namespace {

using namespace testing;
using Kind = TestServer::Kind;

Task<> answer_version(http::Exchange& exchange) {
  auto body = co_await exchange.read_all(1000);
  http::ResponseHead head;
  head.headers.add("x-version", std::to_string(exchange.request().version));
  head.headers.add("x-authority", exchange.request().authority);
  auto text = std::move(body).value_or("");
  (void)co_await exchange.respond(std::move(head), std::move(text));
}

TEST(Upstream, SpeaksWhatThePeerSpeaks) {
  struct Case {
    Kind kind;
    bool h2;
    const char* version;
  };
  for (auto one :
       {Case{Kind::kTls, true, "20"}, Case{Kind::kTls, false, "11"}, Case{Kind::kPlain, true, "11"}}) {
    World world;
    TestServer server(world.scope, world.loop.get_executor(), one.kind, answer_version);
    world.run([&](World& w) -> Task<> {
      auto route = w.route(server.port);
      route.tls = one.kind != Kind::kPlain;
      route.h2 = one.h2;
      for (int i = 0; i < 3; ++i) {
        auto answer = co_await ask(w.upstream, route, request("POST"), "hello");
        EXPECT_TRUE(answer.ok()) << answer.error().message();
        if (!answer.ok()) co_return;
        EXPECT_EQ(answer->head.headers.find("x-version"), one.version);
        EXPECT_EQ(answer->body, "hello");
      }
    });
    EXPECT_EQ(server.connections, 1) << one.version;
  }
}

TEST(Upstream, ManyFirstRequestsShareOneHttp2Connection) {
  World world;
  TestServer server(world.scope, world.loop.get_executor(), Kind::kTls, answer_version);
  int good = 0;
  auto one = [&good, &server](World& w) -> Task<> {
    auto answer = co_await ask(w.upstream, w.route(server.port), request());
    good += answer.ok() ? 1 : 0;
  };
  world.run([&](World& w) -> Task<> {
    async::Scope all(w.loop.get_executor());
    for (int i = 0; i < 20; ++i) all.spawn("one", one(w));
    co_await all.join();
  });
  EXPECT_EQ(good, 20);
  EXPECT_EQ(server.connections, 1);
}

// Decision 0120: nothing of one sandbox travels on a connection that another one, or another credential,
// used.
TEST(Upstream, ConnectionsAreNeverShared) {
  for (auto kind : {Kind::kTls, Kind::kTlsHttp1Only, Kind::kPlain}) {
    World world;
    TestServer server(world.scope, world.loop.get_executor(), kind, answer_version);
    world.run([&](World& w) -> Task<> {
      auto first = w.route(server.port, "sandbox 1");
      first.tls = kind != Kind::kPlain;
      first.h2 = kind == Kind::kTls;
      auto second = first, credential = first, other = first;
      second.sandbox = "sandbox 2";
      credential.credential = "key 1";
      other.credential = "key 2";
      for (const auto& route : {first, second, credential, other, first, second, credential, other}) {
        auto answer = co_await ask(w.upstream, route, request());
        EXPECT_TRUE(answer.ok());
      }
    });
    EXPECT_EQ(server.connections, 4);
  }
}

TEST(Upstream, AForgottenSandboxHasNoConnectionsLeft) {
  World world;
  TestServer server(world.scope, world.loop.get_executor(), Kind::kTls, answer_version);
  world.run([&](World& w) -> Task<> {
    (void)co_await ask(w.upstream, w.route(server.port), request());
    (void)co_await ask(w.upstream, w.route(server.port, "sandbox 10"), request());
    EXPECT_EQ(w.upstream.origins(), 2u);
    w.upstream.forget("sandbox 1");
    EXPECT_EQ(w.upstream.origins(), 1u);
    auto again = co_await ask(w.upstream, w.route(server.port), request());
    EXPECT_TRUE(again.ok());
  });
  EXPECT_EQ(server.connections, 3);
}

TEST(Upstream, ASandboxIsForgottenInAllItsGenerationsAndLabels) {
  World world;
  TestServer server(world.scope, world.loop.get_executor(), Kind::kPlain, answer_version);
  world.run([&](World& w) -> Task<> {
    for (const char* key : {"a/1", "a/2", "a/2/label", "a", "ab/1", "b/1"}) {
      auto route = w.route(server.port, key);
      route.tls = false;
      EXPECT_TRUE((co_await ask(w.upstream, route, request())).ok());
    }
    w.upstream.forget("a");
    EXPECT_EQ(w.upstream.origins(), 2u);
  });
}

TEST(Upstream, OriginsAreBoundedPerSandbox) {
  World world;
  TestServer server(world.scope, world.loop.get_executor(), Kind::kPlain, answer_version);
  world.run([&](World& w) -> Task<> {
    for (std::size_t i = 0; i < Upstream::kMaxOriginsPerSandbox + 20; ++i) {
      auto route = w.route(server.port);
      route.tls = false;
      route.credential = std::to_string(i);
      auto answer = co_await ask(w.upstream, route, request());
      EXPECT_TRUE(answer.ok());
    }
    EXPECT_EQ(w.upstream.origins(), Upstream::kMaxOriginsPerSandbox);
  });
}

TEST(Upstream, AnAddressThatIsRefusedIsNeverDialled) {
  World world;
  TestServer server(world.scope, world.loop.get_executor(), Kind::kPlain, answer_version);
  world.run([&](World& w) -> Task<> {
    auto route = w.route(server.port);
    route.check = check_world;
    auto denied = co_await ask(w.upstream, route, request());
    EXPECT_EQ(denied.error().word(), "address_denied");
    EXPECT_EQ(upstream_status(denied.error()), 403);
    auto unknown = w.route(server.port);
    unknown.authority = authority("nobody.example");
    auto missing = co_await ask(w.upstream, unknown, request());
    EXPECT_EQ(missing.error().word(), "name_not_found");
    EXPECT_EQ(upstream_status(missing.error()), 502);
  });
  EXPECT_EQ(server.connections, 0);
}

// A rebinding name: the first answer is good, the next one is not. The check is asked for every connection.
TEST(Upstream, EveryNewConnectionIsCheckedAgain) {
  World world;
  TestServer server(world.scope, world.loop.get_executor(), Kind::kPlain, answer_version);
  world.run([&](World& w) -> Task<> {
    auto route = w.route(server.port);
    route.tls = false;
    EXPECT_TRUE((co_await ask(w.upstream, route, request())).ok());
    w.resolver->names["api.example"] = {ip("169.254.169.254"), ip("10.0.0.1")};
    w.upstream.forget(route.sandbox);
    auto rebound = co_await ask(w.upstream, route, request());
    EXPECT_EQ(rebound.error().word(), "address_denied");
  });
  EXPECT_EQ(server.connections, 1);
}

TEST(Upstream, OfSeveralAddressesTheNextIsTried) {
  World world;
  TestServer server(world.scope, world.loop.get_executor(), Kind::kPlain, answer_version);
  world.resolver->names["api.example"] = {ip("127.0.0.3"), ip("10.9.9.9"), ip("127.0.0.1")};
  world.run([&](World& w) -> Task<> {
    auto route = w.route(server.port);
    route.tls = false;
    std::vector<std::string> checked;
    route.check = [&checked](const IpAddress& address) {
      checked.push_back(address.text());
      if (!address.text().starts_with("10.")) return success();
      return Result<void>(make_error(Code::kDenied, "no").with_word("address_denied"));
    };
    EXPECT_TRUE((co_await ask(w.upstream, route, request())).ok());
    EXPECT_EQ(checked.size(), 3u);
  });
  EXPECT_EQ(server.connections, 1);
}

TEST(Upstream, ARefusedConnectionIsABadGateway) {
  World world;
  TestServer server(world.scope, world.loop.get_executor(), Kind::kPlain, answer_version);
  auto port = server.port;
  server.close();
  world.run([&](World& w) -> Task<> {
    auto refused = co_await ask(w.upstream, w.route(port), request());
    EXPECT_EQ(refused.error().word(), "connect_failed");
    EXPECT_EQ(upstream_status(refused.error()), 502);
  });
}

TEST(Upstream, SaysWhyAPeerIsNotWhoItShouldBe) {
  World world;
  TestServer server(world.scope, world.loop.get_executor(), Kind::kTls, answer_version, "other.example");
  world.run([&](World& w) -> Task<> {
    auto wrong = co_await ask(w.upstream, w.route(server.port), request());
    EXPECT_EQ(wrong.error().word(), net::kCertificateWrongName);
    EXPECT_EQ(upstream_status(wrong.error()), 502);
    auto route = w.route(server.port);
    route.trust = *net::make_tls_client("");
    auto unknown = co_await ask(w.upstream, route, request());
    EXPECT_EQ(unknown.error().word(), net::kCertificateUnknownIssuer);
  });
}

TEST(Upstream, LimitsHaveTheirNames) {
  World world;
  http::Handler silent = [](http::Exchange& exchange) -> Task<> { co_await exchange.wait_client_gone(); };
  http::Handler stalls = [](http::Exchange& exchange) -> Task<> {
    http::ResponseHead head;
    (void)co_await exchange.send_head_and(std::move(head), "x");
    co_await exchange.wait_client_gone();
  };
  for (auto kind : {Kind::kPlain, Kind::kTls}) {
    World w1;
    TestServer first(w1.scope, w1.loop.get_executor(), kind, silent);
    TestServer second(w1.scope, w1.loop.get_executor(), kind, stalls);
    w1.run([&](World& w) -> Task<> {
      auto route = w.route(first.port);
      route.tls = kind == Kind::kTls;
      route.limits.first_byte = std::chrono::milliseconds(5);
      auto late = co_await ask(w.upstream, route, request());
      EXPECT_EQ(late.error().code(), Code::kDeadline);
      EXPECT_EQ(upstream_status(late.error()), 504);
      route.authority = authority("api.example:" + std::to_string(second.port));
      route.limits = Timeouts();
      route.limits.idle = std::chrono::milliseconds(5);
      auto idle = co_await ask(w.upstream, route, request());
      EXPECT_EQ(idle.error().code(), Code::kDeadline);
      route.limits = Timeouts();
      route.limits.total = std::chrono::milliseconds(5);
      auto total = co_await ask(w.upstream, route, request());
      EXPECT_EQ(total.error().code(), Code::kDeadline);
    });
  }
}

// gateway.md, report 24 and 37: a stream that is silent for long is not broken off, nor answered for.
TEST(Upstream, AStreamMayBeSilentWithinItsLimitsOnly) {
  EXPECT_EQ(Timeouts().first_byte, std::chrono::seconds(600));
  EXPECT_EQ(Timeouts().idle, std::chrono::seconds(300));
  Timeouts none;
  none.idle = none.total = Steady::duration::zero();
  World world;
  async::Event go(world.loop.get_executor());
  http::Handler handler = [&go](http::Exchange& exchange) -> Task<> {
    http::ResponseHead head;
    (void)co_await exchange.send_head_and(std::move(head), "x");
    co_await go.wait();
    (void)co_await exchange.write("y");
    (void)co_await exchange.finish();
  };
  TestServer server(world.scope, world.loop.get_executor(), Kind::kTls, handler);
  world.run([&](World& w) -> Task<> {
    auto route = w.route(server.port);
    route.limits = none;
    auto exchange = co_await w.upstream.start(route, request());
    EXPECT_TRUE((co_await (*exchange)->read_head()).ok());
    char buffer[8];
    EXPECT_EQ(*co_await (*exchange)->read_body(buffer), 1u);
    for (int i = 0; i < 100; ++i) co_await async::yield();
    go.notify_all();
    EXPECT_EQ(*co_await (*exchange)->read_body(buffer), 1u);
    EXPECT_EQ(*co_await (*exchange)->read_body(buffer), 0u);
  });
}

TEST(Upstream, AnExchangeTellsWhereItLeads) {
  for (auto kind : {Kind::kPlain, Kind::kTlsHttp1Only, Kind::kTls}) {
    World world;
    TestServer server(world.scope, world.loop.get_executor(), kind, answer_version);
    world.run([&](World& w) -> Task<> {
      auto route = w.route(server.port);
      route.tls = kind != Kind::kPlain;
      route.h2 = kind == Kind::kTls;
      auto exchange = co_await w.upstream.start(std::move(route), request());
      EXPECT_TRUE(exchange.ok());
      if (exchange.ok()) EXPECT_EQ((*exchange)->peer(), fmt::format("127.0.0.1:{}", server.port));
    });
  }
}

// While its connection was being made the rules changed, and other requests went to the same peer.
TEST(Upstream, EachRequestIsAskedForRightBeforeItIsSent) {
  for (auto kind : {Kind::kPlain, Kind::kTlsHttp1Only, Kind::kTls}) {
    World world;
    std::string came;
    http::Handler handler = [&came](http::Exchange& exchange) -> Task<> {
      came += exchange.request().target;
      http::ResponseHead empty;
      (void)co_await exchange.respond(std::move(empty), "");
    };
    TestServer server(world.scope, world.loop.get_executor(), kind, handler);
    auto send = [&](World& w, std::string target, bool may, std::string& word) -> Task<> {
      auto route = w.route(server.port);
      route.tls = kind != Kind::kPlain;
      route.h2 = kind == Kind::kTls;
      route.may_send = [may] { return may; };
      auto answer = co_await ask(w.upstream, std::move(route), request("GET", std::move(target)));
      word = answer.ok() ? "sent" : answer.error().word();
    };
    std::string denied, allowed, later;
    world.run([&](World& w) -> Task<> {
      async::Scope all(w.loop.get_executor());
      all.spawn("denied", send(w, "/denied", false, denied));
      all.spawn("allowed", send(w, "/allowed", true, allowed));
      co_await all.join();
      co_await send(w, "/later", false, later);  // on a kept connection
    });
    EXPECT_EQ(came, "/allowed");
    EXPECT_EQ(denied, "not_running");
    EXPECT_EQ(allowed, "sent");
    EXPECT_EQ(later, "not_running");
  }
}

// gateway.md, reports 33 and 34: who leaves must not let the upstream go on working, and billing.
TEST(Upstream, WhoLeavesStopsTheUpstream) {
  for (auto kind : {Kind::kPlain, Kind::kTlsHttp1Only, Kind::kTls}) {
    for (bool streaming : {false, true}) {
      World world;
      async::Event changed(world.loop.get_executor());
      bool came = false, gone = false;
      http::Handler handler = [&](http::Exchange& exchange) -> Task<> {
        came = true;
        changed.notify_all();
        http::ResponseHead head;
        if (streaming) (void)co_await exchange.send_head_and(std::move(head), "first");
        co_await exchange.wait_client_gone();
        gone = true;
        changed.notify_all();
      };
      TestServer server(world.scope, world.loop.get_executor(), kind, handler);
      world.run([&](World& w) -> Task<> {
        auto route = w.route(server.port);
        route.tls = kind != Kind::kPlain;
        route.h2 = kind == Kind::kTls;
        auto exchange = co_await w.upstream.start(route, request());
        EXPECT_TRUE(exchange.ok());
        if (streaming) EXPECT_TRUE((co_await (*exchange)->read_head()).ok());
        while (!came) co_await changed.wait();
        exchange->reset();
        while (!gone) co_await changed.wait();
      });
    }
  }
}

// gateway.md, report 27: an upstream that breaks off in the middle is an error, whatever was said of the
// length.
TEST(Upstream, ABrokenStreamIsNoSuccess) {
  for (auto kind : {Kind::kPlain, Kind::kTlsHttp1Only, Kind::kTls}) {
    World world;
    http::Handler handler = [](http::Exchange& exchange) -> Task<> {
      http::ResponseHead head;
      (void)co_await exchange.send_head_and(std::move(head), "data: 1\n\n");
      exchange.abort();
    };
    TestServer server(world.scope, world.loop.get_executor(), kind, handler);
    world.run([&](World& w) -> Task<> {
      auto route = w.route(server.port);
      route.tls = kind != Kind::kPlain;
      route.h2 = kind == Kind::kTls;
      auto broken = co_await ask(w.upstream, route, request());
      EXPECT_EQ(upstream_status(broken.error()), 502);
    });
  }
}

// gateway.md, report 36.
TEST(Upstream, NothingIsAskedTwiceThatMayHaveBeenDone) {
  for (auto kind : {Kind::kPlain, Kind::kTls}) {
    World world;
    int seen = 0;
    http::Handler handler = [&seen](http::Exchange& exchange) -> Task<> {
      if (exchange.request().target == "/warm") co_return co_await answer_version(exchange);
      ++seen;
      (void)co_await exchange.read_all(1000);
      exchange.abort();
    };
    TestServer server(world.scope, world.loop.get_executor(), kind, handler);
    world.run([&](World& w) -> Task<> {
      auto route = w.route(server.port);
      route.tls = kind == Kind::kTls;
      (void)co_await ask(w.upstream, route, request("GET", "/warm"));
      EXPECT_FALSE((co_await ask(w.upstream, route, request("POST"), "body")).ok());
      EXPECT_EQ(seen, 1);
      EXPECT_FALSE((co_await ask(w.upstream, route, request("POST"))).ok());
      EXPECT_EQ(seen, 2);
    });
  }
}

TEST(Upstream, AnUpgradeGoesOverHttp1AndGivesARawConnection) {
  World world;
  http::Handler handler = [](http::Exchange& exchange) -> Task<> {
    EXPECT_EQ(exchange.request().version, 11);
    http::ResponseHead head{.status = 101};
    head.headers.add("upgrade", "websocket");
    auto raw = co_await exchange.upgrade(std::move(head));
    EXPECT_TRUE(raw.ok());
    (void)co_await (*raw)->write_all("raw");
    char buffer[8];
    (void)co_await (*raw)->read_some(buffer);
  };
  TestServer server(world.scope, world.loop.get_executor(), Kind::kTls, handler);
  world.run([&](World& w) -> Task<> {
    auto head = request();
    head.headers.add("connection", "upgrade");
    head.headers.add("upgrade", "websocket");
    auto exchange = co_await w.upstream.start(w.route(server.port), head);
    EXPECT_TRUE(exchange.ok());
    auto answer = co_await (*exchange)->read_head();
    EXPECT_TRUE(answer.ok() && answer->status == 101);
    auto raw = (*exchange)->take_stream();
    char buffer[8];
    EXPECT_EQ(*co_await raw->read_some(buffer), 3u);
  });
}

// A SOCKS5 proxy that keeps what it was told and connects to `port`.
struct TestProxy {
  std::string seen;
  char verdict = 0;
  std::unique_ptr<net::Listener> listener;

  Task<> serve(std::uint16_t port) {
    auto accepted = co_await listener->accept();
    if (!accepted.ok()) co_return;
    auto& stream = **accepted;
    char buffer[512];
    co_await take(stream, buffer);
    std::string choice{5, seen[2]};
    (void)co_await stream.write_all(choice);
    if (seen[2] == 2) {
      co_await take(stream, buffer);
      std::string fine{1, 0};
      (void)co_await stream.write_all(fine);
    }
    co_await take(stream, buffer);
    std::string answer{5, verdict, 0, 1, 0, 0, 0, 0, 0, 0};
    if (verdict != 0) {
      (void)co_await stream.write_all(answer);
      co_return;
    }
    net::Endpoint endpoint{"127.0.0.1", port};
    net::ConnectOptions options;
    auto target = co_await net::connect_tcp(endpoint, options);
    (void)co_await stream.write_all(answer);
    auto count = co_await stream.read_some(buffer);
    std::string first(buffer, *count);
    (void)co_await (*target)->write_all(first);
    count = co_await (*target)->read_some(buffer);
    std::string back(buffer, *count);
    (void)co_await stream.write_all(back);
  }
  Task<> take(net::Stream& stream, std::span<char> buffer) {
    auto count = co_await stream.read_some(buffer);
    if (count.ok()) seen.append(buffer.data(), *count);
  }
};

TEST(Upstream, AProxyIsToldTheNameAndLogsIn) {
  World world;
  TestServer server(world.scope, world.loop.get_executor(), Kind::kPlain, answer_version);
  TestProxy proxy;
  proxy.listener = std::move(*net::listen_tcp(world.loop.get_executor(), {"127.0.0.1", 0}));
  world.scope.spawn("proxy", proxy.serve(server.port));
  world.run([&](World& w) -> Task<> {
    auto route = w.route(4711);
    route.authority = authority("only-there.example:4711");
    route.tls = false;
    Proxy via{authority("127.0.0.1:" + std::to_string(proxy.listener->port())), "me", Secret("pass")};
    route.proxy = std::make_shared<Proxy>(via);
    route.proxy_check = loopback_only;
    auto answer = co_await ask(w.upstream, route, request());
    EXPECT_TRUE(answer.ok()) << answer.error().message();
    EXPECT_EQ(w.resolver->asked, 0);
  });
  EXPECT_EQ(proxy.seen, std::string("\5\1\2", 3) + "\1\2me\4pass" + std::string("\5\1\0\3\x12", 5) +
                            "only-there.example" + std::string("\x12\x67", 2));
}

TEST(Upstream, AProxyCannotBeUsedToReachWhatIsRefused) {
  World world;
  TestProxy proxy;
  proxy.verdict = 2;
  proxy.listener = std::move(*net::listen_tcp(world.loop.get_executor(), {"127.0.0.1", 0}));
  world.scope.spawn("proxy", proxy.serve(0));
  world.run([&](World& w) -> Task<> {
    auto route = w.route(80);
    route.tls = false;
    Proxy via{authority("127.0.0.1:" + std::to_string(proxy.listener->port())), "", Secret()};
    route.proxy = std::make_shared<Proxy>(via);
    auto unchecked = co_await ask(w.upstream, route, request());
    EXPECT_EQ(unchecked.error().code(), Code::kInternal)
        << "a proxy of which nobody says whether it may be reached";
    route.proxy_check = loopback_only;
    auto refused = co_await ask(w.upstream, route, request());
    EXPECT_EQ(refused.error().word(), "proxy_refused");
    // A target that is an address is checked by us, and so is the proxy's own address.
    route.authority = authority("169.254.169.254:80");
    auto metadata = co_await ask(w.upstream, route, request());
    EXPECT_EQ(metadata.error().word(), "address_denied");
    route.authority = authority("api.example:80");
    via.authority = authority("10.0.0.1:1080");
    route.proxy = std::make_shared<Proxy>(via);
    auto inner = co_await ask(w.upstream, route, request());
    EXPECT_EQ(inner.error().word(), "address_denied");
  });
  EXPECT_EQ(proxy.seen.size(), 3u + 4 + 1 + 11 + 2);
}

TEST(Upstream, TheWorldIsNeitherSpecialNorThisMachine) {
  for (auto address : {"127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "198.18.0.1",
                       "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "::ffff:10.0.0.1",
                       "64:ff9b::a00:1", "2002:a00:1::"}) {
    EXPECT_FALSE(check_world(ip(address)).ok()) << address;
  }
  EXPECT_TRUE(check_world(ip("1.1.1.1")).ok());
}

}  // namespace
}  // namespace atl::gateway
