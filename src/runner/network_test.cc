// SPDX-License-Identifier: Apache-2.0
//
// Egress rules, tried with real connections to a small "internet" that has every address
// (tests/support/runner_world.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/firewall.h"
#include "runner/names.h"
#include "runner/resolver.h"
#include "runner/special_ranges.h"
#include "support/runner_fixture.h"
#include "sys/files.h"

namespace atl::runner_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class NetworkTest : public RunnerFixture {
 protected:
  void SetUp() override {
    RunnerFixture::SetUp();
    if (world_) RunnerFixture::start();
  }
  std::string start(char letter, bool internet) {
    wire::StartRequest request = World::request(World::id(letter));
    request.internet = internet ? 1 : 0;
    auto reply = World::start_sandbox(*client_, request);
    if (!reply || reply->status.ok == 0) {
      ADD_FAILURE() << (reply ? reply->status.message.str() : "no reply");
      return {};
    }
    return reply->interface.str();
  }
  // What a connection from the sandbox to this address hears first.
  static std::string hear(const std::string& link, const std::string& address) {
    return World::shell(link, fmt::format("echo | nc -w 2 {} {} 2>&1 | head -n 1", address, kSinkPort));
  }
  wire::Done rules(char letter, bool internet, std::vector<std::string> allow,
                   std::vector<std::string> deny) {
    wire::NetworkRequest request{};
    request.sandbox.set(World::id(letter));
    request.internet = internet ? 1 : 0;
    auto fill = [](auto& out, std::uint8_t& count, const std::vector<std::string>& blocks) {
      for (const std::string& block : blocks) {
        model::Cidr cidr = *model::parse_cidr(block);
        std::copy(cidr.address.begin(), cidr.address.end(), out[count].address);
        out[count++].prefix = cidr.prefix;
      }
    };
    fill(request.allow, request.allow_count, allow);
    fill(request.deny, request.deny_count, deny);
    client_->send(request, wire::Type::kNetwork);
    return *client_->receive<wire::Done>(wire::Type::kDone);
  }
};

TEST_F(NetworkTest, OpenReachesPublicAddressesAndNoOthers) {
  std::string link = start('a', true);
  EXPECT_EQ(hear(link, "9.9.9.9"), "internet\n");
  EXPECT_EQ(hear(link, "8.8.8.8"), "internet\n");
  // All of these are there and would answer.
  for (const char* address : {"10.1.1.1", "169.254.169.254", "192.168.7.7", "172.16.3.3", "100.100.100.200",
                              "198.18.0.1", "203.0.113.1"}) {
    EXPECT_THAT(hear(link, address), Not(HasSubstr("internet"))) << address;
  }
}

TEST_F(NetworkTest, HostIsOutOfReachOnEveryAddress) {
  std::string link = start('a', true);
  sys::Ipv4 own = runner::host_address(3000);
  std::string of_slot = fmt::format("{}.{}.{}.{}", own[0], own[1], own[2], own[3]);
  for (const std::string& address : {std::string("169.254.0.22"), of_slot, std::string("203.0.113.2")}) {
    EXPECT_THAT(hear(link, address), Not(testing::StartsWith("host"))) << address;
  }
}

TEST_F(NetworkTest, SandboxesDoNotReachEachOther) {
  std::string a = start('a', true), b = start('b', true);
  sys::Ipv4 other = runner::host_address(3001);
  EXPECT_THAT(World::shell(a, fmt::format("echo | nc -w 2 {}.{}.{}.{} 49983 2>&1", other[0], other[1],
                                          other[2], other[3])),
              Not(HasSubstr("uid")));
  // Both have the same address; each one's own is its own.
  EXPECT_EQ(World::shell(a, "hostname"), World::id('a') + "\n");
  EXPECT_EQ(World::shell(b, "hostname"), World::id('b') + "\n");
}

TEST_F(NetworkTest, ClosedReachesNothing) {
  std::string link = start('a', false);
  EXPECT_THAT(hear(link, "9.9.9.9"), Not(HasSubstr("internet")));
  EXPECT_EQ(World::shell(link, "echo here"), "here\n");  // ingress works all the same
}

TEST_F(NetworkTest, RefusalsAreFast) {
  std::string link = start('a', false);
  auto before = std::chrono::steady_clock::now();
  hear(link, "9.9.9.9");
  EXPECT_LT(std::chrono::steady_clock::now() - before,
            std::chrono::milliseconds(1500));  // nc would wait for two seconds
}

TEST_F(NetworkTest, AllowOpensWhatIsClosedAndBeatsDeny) {
  std::string link = start('a', false);
  EXPECT_EQ(rules('a', false, {"9.9.9.0/24"}, {"9.9.9.9"}).status.ok, 1);
  EXPECT_EQ(hear(link, "9.9.9.9"), "internet\n");
  EXPECT_THAT(hear(link, "8.8.8.8"), Not(HasSubstr("internet")));
}

TEST_F(NetworkTest, DenyClosesWhatIsOpen) {
  std::string link = start('a', true);
  EXPECT_EQ(rules('a', true, {"8.8.4.4"}, {"8.8.0.0/16"}).status.ok, 1);
  EXPECT_THAT(hear(link, "8.8.8.8"), Not(HasSubstr("internet")));
  EXPECT_EQ(hear(link, "8.8.4.4"), "internet\n");
  EXPECT_EQ(hear(link, "9.9.9.9"), "internet\n");
}

TEST_F(NetworkTest, AllowNeverOpensASpecialRange) {
  std::string link = start('a', true);
  EXPECT_EQ(rules('a', true, {"0.0.0.0/0", "10.1.1.1", "169.254.169.254"}, {}).status.ok, 1);
  EXPECT_EQ(hear(link, "9.9.9.9"), "internet\n");
  for (const char* address : {"10.1.1.1", "169.254.169.254", "203.0.113.2"}) {
    EXPECT_THAT(hear(link, address), Not(testing::AnyOf(HasSubstr("internet"), testing::StartsWith("host"))))
        << address;
  }
}

TEST_F(NetworkTest, NestedAndRepeatedBlocksAreFine) {
  std::string link = start('a', false);
  EXPECT_EQ(rules('a', false, {"8.0.0.0/8", "8.8.8.8", "8.8.0.0/16", "8.8.8.8"}, {}).status.ok, 1);
  EXPECT_EQ(hear(link, "8.8.8.8"), "internet\n");
  EXPECT_EQ(rules('a', false, {"8.8.8.8", "9.0.0.0/8"}, {}).status.ok,
            1);  // overlaps with the rules it replaces
  EXPECT_EQ(hear(link, "9.9.9.9"), "internet\n");
  EXPECT_THAT(hear(link, "8.8.4.4"), Not(HasSubstr("internet")));
}

TEST_F(NetworkTest, NarrowedRulesCutOpenConnections) {
  std::string link = start('a', true);
  // One connection that stays open: a line each time the file grows.
  World::shell(link, fmt::format("mkdir /t; touch /t/in; tail -f /t/in 2>/dev/null </dev/null | "
                                 "(nc 9.9.9.9 {} > /t/out; echo over > /t/end) >/dev/null 2>&1 &",
                                 kSinkPort));
  auto count = [&] { return World::shell(link, "grep -c internet /t/out"); };
  ASSERT_TRUE(soon([&] { return count() == "1\n"; }));
  World::shell(link, "echo more >> /t/in");
  ASSERT_TRUE(soon([&] { return count() == "2\n"; }));
  EXPECT_EQ(rules('a', false, {}, {}).status.ok, 1);
  World::shell(link, "echo more >> /t/in");
  EXPECT_TRUE(soon([&] { return World::shell(link, "cat /t/end 2>/dev/null") == "over\n"; }));
  EXPECT_EQ(count(), "2\n");
}

TEST_F(NetworkTest, RulesOfOneSandboxEndWithIt) {
  start('a', true);
  EXPECT_EQ(rules('a', false, {"9.9.9.9"}, {}).status.ok, 1);
  World::stop_sandbox(*client_, World::id('a'));
  std::string link;
  // The slot comes back to somebody else.
  for (char letter = 'b'; letter < 'z'; ++letter) {
    auto reply = World::start_sandbox(*client_, World::id(letter));
    ASSERT_TRUE(reply && reply->status.ok == 1);
    if (reply->slot == 3000) link = reply->interface.str();
    if (!link.empty()) break;
  }
  ASSERT_FALSE(link.empty());
  EXPECT_EQ(hear(link, "8.8.8.8"), "internet\n");
}

TEST_F(NetworkTest, ConnectionsOfOneSandboxEndWithIt) {
  constexpr int kOpen = 20;
  auto tracked = [] { return sys::read_file("/proc/sys/net/netfilter/nf_conntrack_count"); };
  auto at_least = [&](int count) { return std::stoi(tracked().value()) >= count; };
  std::string link = start('a', true);
  World::shell(link, fmt::format("for i in $(seq {}); do (sleep 600 | nc 9.9.9.9 {}) >/dev/null 2>&1 & done",
                                 kOpen, kSinkPort));
  ASSERT_TRUE(soon([&] { return at_least(kOpen); }));
  World::stop_sandbox(*client_, World::id('a'));
  EXPECT_TRUE(soon([&] { return !at_least(kOpen); }));
}

TEST_F(NetworkTest, RulesSurviveARestart) {
  std::string link = start('a', true);
  EXPECT_EQ(rules('a', true, {}, {"8.8.8.8"}).status.ok, 1);
  std::string closed = start('b', false);
  world_->kill();
  EXPECT_THAT(hear(link, "8.8.8.8"), Not(HasSubstr("internet")));  // and while no runner is there
  ASSERT_TRUE(world_->start());
  client_.emplace(world_->socket());
  EXPECT_THAT(hear(link, "8.8.8.8"), Not(HasSubstr("internet")));
  EXPECT_EQ(hear(link, "9.9.9.9"), "internet\n");
  EXPECT_THAT(hear(closed, "9.9.9.9"), Not(HasSubstr("internet")));
}

TEST_F(NetworkTest, RemovedTableIsPutBack) {
  std::string link = start('a', true);
  std::string closed = start('b', false);
  ASSERT_EQ(std::system("nft flush ruleset"), 0);
  EXPECT_TRUE(soon([&] { return world_->log().find("put back") != std::string::npos; }));
  EXPECT_THAT(hear(closed, "9.9.9.9"), Not(HasSubstr("internet")));
  EXPECT_THAT(hear(link, "10.1.1.1"), Not(HasSubstr("internet")));
  EXPECT_EQ(hear(link, "9.9.9.9"), "internet\n");
}

TEST_F(NetworkTest, WrongRulesAreRefusedAndChangeNothing) {
  std::string link = start('a', false);
  wire::NetworkRequest request{};
  request.sandbox.set(World::id('a'));
  request.internet = 1;
  request.allow_count = 1;
  request.allow[0] = {{8, 8, 8, 8}, 24, {}};  // bits below the prefix
  client_->send(request, wire::Type::kNetwork);
  EXPECT_EQ(client_->receive<wire::Done>(wire::Type::kDone)->status.ok, 0);
  request.allow[0] = {{8, 8, 8, 8}, 40, {}};
  client_->send(request, wire::Type::kNetwork);
  EXPECT_EQ(client_->receive<wire::Done>(wire::Type::kDone)->status.ok, 0);
  request.allow_count = 255;
  client_->send(request, wire::Type::kNetwork);
  EXPECT_EQ(client_->receive<wire::Done>(wire::Type::kDone)->status.ok, 0);
  EXPECT_THAT(hear(link, "9.9.9.9"), Not(HasSubstr("internet")));
}

TEST(Firewall, DropsNestedBlocks) {
  auto cidrs = [](std::vector<std::string> texts) {
    std::vector<model::Cidr> out;
    for (const std::string& text : texts) out.push_back(*model::parse_cidr(text));
    return out;
  };
  EXPECT_EQ(runner::without_nested(cidrs({"8.8.8.8", "8.0.0.0/8", "9.9.9.9", "8.8.0.0/16", "9.9.9.9"})),
            cidrs({"8.0.0.0/8", "9.9.9.9"}));
  EXPECT_EQ(runner::without_nested(cidrs({"1.2.3.4", "0.0.0.0/0"})), cidrs({"0.0.0.0/0"}));
  EXPECT_EQ(runner::without_nested(cidrs({"10.0.0.0/9", "10.128.0.0/9"})),
            cidrs({"10.0.0.0/9", "10.128.0.0/9"}));
}

TEST(SpecialRanges, HoldTheBorders) {
  using runner::is_special;
  EXPECT_TRUE(is_special({10, 255, 255, 255}) && is_special({172, 31, 255, 255}) &&
              is_special({100, 127, 0, 1}));
  EXPECT_TRUE(is_special({0, 0, 0, 0}) && is_special({127, 0, 0, 1}) && is_special({255, 255, 255, 255}));
  EXPECT_TRUE(is_special({169, 254, 169, 254}) && is_special({224, 0, 0, 1}) &&
              is_special({198, 19, 255, 255}));
  EXPECT_FALSE(is_special({11, 0, 0, 0}) || is_special({172, 32, 0, 0}) || is_special({100, 128, 0, 0}));
  EXPECT_FALSE(is_special({1, 1, 1, 1}) || is_special({198, 20, 0, 0}) || is_special({192, 169, 0, 0}));
}

TEST(Resolver, KeepsPublicServersOnly) {
  using runner::resolver_configuration;
  EXPECT_THAT(
      resolver_configuration("search x\nnameserver 10.0.0.2\nnameserver 9.9.9.9\n# nameserver 1.2.3.4\n"),
      testing::StartsWith("nameserver 9.9.9.9\noptions"));
  EXPECT_THAT(resolver_configuration("nameserver 127.0.0.53\nnameserver fe80::1\n"),
              testing::StartsWith("nameserver 1.1.1.1\nnameserver 8.8.8.8\n"));
  EXPECT_THAT(resolver_configuration("nameserver\nnameserver 9.9.9.9; rm\n"), HasSubstr("1.1.1.1"));
}

TEST(Names, FollowFromTheSlot) {
  EXPECT_EQ(runner::uid_base(0), 0x70000000u);
  EXPECT_EQ(runner::uid_base(runner::kMaxSlots - 1) + 65535u, 0x7fffffffu);
  EXPECT_EQ(runner::link_name(4095), "atl4095");
  EXPECT_THAT(runner::host_address(0), ElementsAre(100, 64, 0, 1));
  EXPECT_THAT(runner::host_address(255), ElementsAre(100, 64, 1, 0));
  EXPECT_THAT(runner::host_address(4095), ElementsAre(100, 64, 16, 0));
}

}  // namespace
}  // namespace atl::runner_test
