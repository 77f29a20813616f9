// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/resolver.h"

#include "gateway/upstream/world_for_test.h"

namespace atl::gateway {
namespace {

using namespace testing;

// A DNS server that knows one address for every name, by its first label.
struct TestDns {
  std::unique_ptr<net::DatagramSocket> socket;
  int questions = 0;
  std::uint32_t seconds = 0;
  bool holding = true;  // names with "held" are answered later
  std::vector<net::Datagram> held;

  explicit TestDns(async::Executor executor)
      : socket(std::move(*net::bind_udp(executor, {"127.0.0.1", 0}))) {}

  Task<> serve() {
    for (;;) {
      auto query = co_await socket->receive(1500);
      if (!query.ok()) co_return;
      ++questions;
      if (query->payload.find("held") != std::string::npos && holding) {
        held.push_back(std::move(*query));
      } else {
        answer(*query);
      }
    }
  }

  void answer(const net::Datagram& query) {
    net::Datagram out{reply(query.payload), query.peer};
    if (!out.payload.empty()) socket->send(out);
  }
  // Answers what was held back, and holds nothing back any more.
  void release() {
    holding = false;
    for (const auto& query : std::exchange(held, {})) answer(query);
  }

  std::string reply(const std::string& query) {
    auto name_end = query.find('\0', 12);
    auto label = query.substr(13, static_cast<std::size_t>(query[12]));
    bool v6 = query[name_end + 2] == 28;
    if (label == "silent") return "";
    std::string out = query.substr(0, name_end + 5);
    out[2] = static_cast<char>(0x81);
    out[3] = static_cast<char>(0x80);
    out[8] = out[9] = out[10] = out[11] = 0;
    if (label == "none") out[3] = static_cast<char>(0x83);
    if (label == "broken") out[3] = static_cast<char>(0x82);
    std::vector<std::string> values;
    if (label == "good" && !v6)
      values = {std::string("\x01\x02\x03\x04", 4), std::string("\x01\x02\x03\x05", 4)};
    if (label == "good" && v6) values = {std::string("\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01", 16)};
    if (label == "cut" && !v6) values = {std::string("\x01\x02\x03", 3)};
    out[7] = static_cast<char>(values.size());
    for (const auto& value : values) {
      out += std::string("\xc0\x0c\0", 3) + static_cast<char>(v6 ? 28 : 1) + std::string("\0\1", 2);
      for (int shift : {24, 16, 8, 0}) out += static_cast<char>(seconds >> shift);
      out += '\0';
      out += static_cast<char>(value.size());
      out += value;
    }
    return out;
  }
};

struct DnsWorld {
  asio::io_context loop;
  async::Scope scope{loop.get_executor()};
  TestDns dns{loop.get_executor()};
  std::shared_ptr<Resolver> resolver;

  explicit DnsWorld(ResolverOptions options = {}) {
    options.servers = {"127.0.0.1:" + std::to_string(dns.socket->port())};
    options.hosts_file = false;
    auto made = make_resolver(loop.get_executor(), std::move(options));
    EXPECT_TRUE(made.ok());
    resolver = *made;
    scope.spawn("dns", dns.serve());
  }
  Task<> play(std::function<Task<>(DnsWorld&)> script) {
    co_await script(*this);
    resolver.reset();
    dns.socket->close();
    co_await scope.join();
  }
  void run(std::function<Task<>(DnsWorld&)> script) {
    asio::co_spawn(loop, play(std::move(script)), asio::detached);
    loop.run();
  }
};

TEST(Resolver, GivesBothFamiliesInTurns) {
  DnsWorld world;
  world.run([](DnsWorld& w) -> Task<> {
    auto found = co_await w.resolver->resolve("good.example", "asker");
    EXPECT_TRUE(found.ok());
    if (!found.ok()) co_return;
    EXPECT_EQ(*found, (std::vector<IpAddress>{ip("1.2.3.4"), ip("2001:db8::1"), ip("1.2.3.5")}));
  });
}

TEST(Resolver, KeepsAnswersAndSharesQuestions) {
  DnsWorld world;
  auto one = [](std::shared_ptr<Resolver> resolver) -> Task<> {
    auto found = co_await resolver->resolve("good.example", "asker");
    EXPECT_TRUE(found.ok());
  };
  world.run([&one](DnsWorld& w) -> Task<> {
    async::Scope all(w.loop.get_executor());
    for (int i = 0; i < 10; ++i) all.spawn("one", one(w.resolver));
    co_await all.join();
    co_await one(w.resolver);
  });
  EXPECT_EQ(world.dns.questions, 2);  // one for each family, although its answers are good for zero seconds
}

TEST(Resolver, AnswersAreKeptWithinBounds) {
  ResolverOptions options;
  options.least = options.most = Steady::duration::zero();
  DnsWorld world(options);
  world.dns.seconds = 1'000'000;
  world.run([](DnsWorld& w) -> Task<> {
    for (int i = 0; i < 2; ++i) (void)co_await w.resolver->resolve("good.example", "asker");
  });
  EXPECT_EQ(world.dns.questions, 4);
}

TEST(Resolver, TellsWhatDoesNotExistFromWhatIsNotTold) {
  DnsWorld world;
  world.run([](DnsWorld& w) -> Task<> {
    for (auto name : {"none.example", "empty.example"}) {
      auto missing = co_await w.resolver->resolve(name, "asker");
      EXPECT_EQ(missing.error().word(), "name_not_found") << name;
      EXPECT_EQ(missing.error().code(), Code::kNotFound);
    }
    auto broken = co_await w.resolver->resolve("broken.example", "asker");
    EXPECT_EQ(broken.error().word(), "name_unresolved");
    auto before = w.dns.questions;
    (void)co_await w.resolver->resolve("none.example", "asker");
    EXPECT_EQ(w.dns.questions, before);
  });
}

TEST(Resolver, ASilentServerEndsAtTheLimit) {
  ResolverOptions options;
  options.limit = std::chrono::milliseconds(20);
  DnsWorld world(options);
  world.run([](DnsWorld& w) -> Task<> {
    auto found = co_await w.resolver->resolve("silent.example", "asker");
    EXPECT_EQ(found.error().code(), Code::kDeadline);
  });
}

TEST(Resolver, WhoAsksForManyNamesLeavesTheOthersTheirs) {
  ResolverOptions options;
  options.limit = std::chrono::seconds(60);  // of a slow machine: nothing waits for it
  DnsWorld world(options);
  auto held = [](std::shared_ptr<Resolver> resolver, int number, int& refused) -> Task<> {
    auto found = co_await resolver->resolve(fmt::format("held.n{}.example", number), "greedy");
    refused += found.error().word() == "too_many_names" ? 1 : 0;
  };
  world.run([&held](DnsWorld& w) -> Task<> {
    constexpr int kTries = 2 * static_cast<int>(kMaxQuestions);
    async::Scope all(w.loop.get_executor());
    int refused = 0;
    for (int i = 0; i < kTries; ++i) all.spawn("one", held(w.resolver, i, refused));
    co_await async::yield();
    auto found = co_await w.resolver->resolve("good.example", "quiet");
    EXPECT_TRUE(found.ok()) << found.error().message();
    w.dns.release();
    co_await all.join();
    EXPECT_EQ(refused, kTries - static_cast<int>(kMaxQuestionsPerAsker));
  });
}

TEST(Resolver, AMalformedRecordIsNoAddress) {
  DnsWorld world;
  world.run([](DnsWorld& w) -> Task<> {
    auto found = co_await w.resolver->resolve("cut.example", "asker");
    EXPECT_FALSE(found.ok());
  });
}

}  // namespace
}  // namespace atl::gateway
