// SPDX-License-Identifier: Apache-2.0
//
// Egress with a gateway: what of a sandbox reaches the gateway's port, how it tells who speaks and whereto,
// and what reaches nothing. The gateway is a stand-in that tells what it sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runner/names.h"
#include "support/runner_fixture.h"

namespace atl::runner_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kOriginalDestination =
    80;  // SO_ORIGINAL_DST of linux/netfilter_ipv4.h, which clashes with netinet/in.h

std::string text_of(const sockaddr_in& address) {
  char text[INET_ADDRSTRLEN];
  ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  return fmt::format("{}:{}", text, ntohs(address.sin_port));
}

// Tells each connection the peer's address and where it was going.
void tell_forever(int listener) {
  for (;;) {
    sockaddr_in peer{}, to{};
    socklen_t length = sizeof peer;
    int connection = ::accept(listener, reinterpret_cast<sockaddr*>(&peer), &length);
    length = sizeof to;
    bool redirected = ::getsockopt(connection, SOL_IP, kOriginalDestination, &to, &length) == 0;
    peer.sin_port = 0;
    std::string line = fmt::format("gateway {} {}\n", text_of(peer), redirected ? text_of(to) : "?");
    ::send(connection, line.data(), line.size(), MSG_NOSIGNAL);
    ::close(connection);
  }
}

// The same for datagrams, which it answers.
void answer_forever(int socket) {
  for (;;) {
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    char buffer[512];
    ssize_t got = ::recvfrom(socket, buffer, sizeof buffer, 0, reinterpret_cast<sockaddr*>(&peer), &length);
    if (got < 0) continue;
    std::string answer = "name server";
    ::sendto(socket, answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&peer), length);
  }
}

int bound(int type, std::uint16_t port) {
  int fd = ::socket(AF_INET, type | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::abort();
  return fd;
}

std::uint16_t port_of(int fd) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

class EgressTest : public RunnerFixture {
 protected:
  void SetUp() override {
    RunnerFixture::SetUp();
    if (!world_) return;
    int listener = bound(SOCK_STREAM, 0);
    ::listen(listener, 64);
    port_ = port_of(listener);
    int datagrams = bound(SOCK_DGRAM, port_);
    in_background([&] { tell_forever(listener); });
    in_background([&] { answer_forever(datagrams); });
    ::close(listener);
    ::close(datagrams);
    ASSERT_TRUE(world_->start({}, {"--egress-port", std::to_string(port_)})) << world_->log();
    client_.emplace(world_->socket());
  }
  template <class Work>
  static void in_background(Work work) {
    if (::fork() != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    work();
  }
  std::string start(char letter) {
    auto reply = World::start_sandbox(*client_, World::id(letter));
    return reply ? reply->interface.str() : "";
  }
  static std::string hear(const std::string& link, const std::string& address, int port = kSinkPort) {
    return World::shell(
        link, fmt::format("{{ echo | nc -w 2 {} {} 2>&1 | head -n 1; }} 2>/dev/null", address, port));
  }
  // Packets that the firewall has refused.
  std::uint64_t refused() const {
    std::string out = world_->path("counter");
    std::string command = fmt::format("nft list counter inet {} refused > {}", world_->name(), out);
    std::string text = std::system(command.c_str()) == 0 ? sys::read_file(out).value_or("") : "";
    std::size_t at = text.find("packets ");
    return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + 8, nullptr, 10);
  }
  enum class Answer { kNone, kAwaited };
  // Sends a datagram from the network namespace of a process; who answered what.
  static std::string ask(std::uint32_t pid, const std::string& address, std::uint16_t port,
                         Answer answered = Answer::kAwaited) {
    std::string out;
    std::thread([&] {
      auto netns = sys::open_file(fmt::format("/proc/{}/ns/net", pid), O_RDONLY);
      if (!netns || ::setns(netns->get(), CLONE_NEWNET) != 0) std::abort();
      sys::Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      timeval limit{10, 0};
      ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(port);
      ::inet_pton(AF_INET, address.c_str(), &to.sin_addr);
      ::sendto(fd.get(), "x", 1, 0, reinterpret_cast<sockaddr*>(&to), sizeof to);
      if (answered == Answer::kNone) return;
      char answer[64];
      sockaddr_in from{};
      socklen_t length = sizeof from;
      ssize_t got =
          ::recvfrom(fd.get(), answer, sizeof answer, 0, reinterpret_cast<sockaddr*>(&from), &length);
      if (got >= 0) out = fmt::format("{}, from {}", std::string_view(answer, got), text_of(from));
    }).join();
    return out;
  }
  static std::string text(const sys::Ipv4& a) { return fmt::format("{}.{}.{}.{}", a[0], a[1], a[2], a[3]); }
  static std::string alias(std::uint32_t slot) { return text(runner::alias_address(slot)); }
  wire::Done label(char letter, std::uint32_t count) {
    wire::LabelsRequest request{};
    request.sandbox.set(World::id(letter));
    request.count = count;
    client_->send(request, wire::Type::kLabels);
    return *client_->receive<wire::Done>(wire::Type::kDone);
  }
  // As hear(), of a process with this label: by the descriptor that the guest daemon has.
  static std::string hear_as(std::uint32_t label, const std::string& link) {
    return World::shell(link, fmt::format("echo 0 > /proc/self/fd/9/label-{}/cgroup.procs && "
                                          "{{ echo | nc -w 2 9.9.9.9 {} 2>&1 | head -n 1; }} 2>/dev/null",
                                          label, kSinkPort));
  }

  std::uint16_t port_ = 0;
};

TEST_F(EgressTest, AllTcpReachesTheGatewayWithItsSenderAndItsDestination) {
  auto reply = World::start_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(reply && reply->status.ok == 1);
  // Public, private, of the link, of metadata services, synthetic: judging is the gateway's.
  for (const char* address : {"9.9.9.9", "10.1.1.1", "169.254.0.22", "169.254.169.254", "198.18.0.1"}) {
    EXPECT_EQ(hear(reply->interface.str(), address, 4711),
              fmt::format("gateway {}:0 {}:4711\n", alias(reply->slot), address));
  }
}

TEST_F(EgressTest, EachSandboxIsTold) {
  auto a = World::start_sandbox(*client_, World::id('a')), b = World::start_sandbox(*client_, World::id('b'));
  ASSERT_TRUE(a && b);
  EXPECT_THAT(hear(a->interface.str(), "9.9.9.9"), HasSubstr(alias(a->slot) + ":0"));
  EXPECT_THAT(hear(b->interface.str(), "9.9.9.9"), HasSubstr(alias(b->slot) + ":0"));
}

TEST_F(EgressTest, HostAndGatewayPortAreOutOfReachUnlessRedirected) {
  std::string link = start('a');
  sys::Ipv4 own = runner::host_address(3000), other = runner::host_address(3001);
  for (const sys::Ipv4& host : {own, other}) {
    std::string address = fmt::format("{}.{}.{}.{}", host[0], host[1], host[2], host[3]);
    // With a word, which finds its way back: without, it would be silence, and the word would leave the host.
    EXPECT_THAT(hear(link, address, port_), HasSubstr("refused"));
    EXPECT_THAT(hear(link, address), HasSubstr("refused"));
  }
  // The host's own address in the outer network is a destination like others: the gateway's to judge.
  EXPECT_THAT(hear(link, "203.0.113.2", port_), HasSubstr(fmt::format("203.0.113.2:{}\n", port_)));
}

TEST_F(EgressTest, NameServersOfAnyAddressAreTheGateway) {
  auto reply = World::start_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(reply);
  for (const char* address : {"9.9.9.9", "169.254.0.22", "10.1.1.1"}) {
    EXPECT_EQ(ask(reply->pid, address, 53), fmt::format("name server, from {}:53", address));
  }
}

TEST_F(EgressTest, OtherDatagramsGoNowhere) {
  auto reply = World::start_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(reply);
  std::uint64_t before = refused();
  for (std::uint16_t port : std::initializer_list<std::uint16_t>{443, 5353, 123}) {
    ask(reply->pid, "9.9.9.9", port, Answer::kNone);
  }
  ask(reply->pid, "203.0.113.2", port_, Answer::kNone);
  EXPECT_TRUE(soon([&] { return refused() >= before + 4; }));
}

// Rules of a time without a gateway: no rule of the tenant or the operator has judged them.
TEST_F(EgressTest, AddressRulesOpenNoDatagrams) {
  world_->kill();
  ASSERT_TRUE(world_->start()) << world_->log();
  client_.emplace(world_->socket());
  auto reply = World::start_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(reply && reply->status.ok == 1);
  wire::NetworkRequest request{};
  request.sandbox.set(World::id('a'));
  request.internet = 1;
  request.allow[request.allow_count++] = {{9, 9, 9, 9}, 32, {}};
  client_->send(request, wire::Type::kNetwork);
  ASSERT_EQ(client_->receive<wire::Done>(wire::Type::kDone)->status.ok, 1);
  world_->kill();
  ASSERT_TRUE(world_->start({}, {"--egress-port", std::to_string(port_)})) << world_->log();
  std::uint64_t before = refused();
  ask(reply->pid, "9.9.9.9", 443, Answer::kNone);
  EXPECT_TRUE(soon([&] { return refused() > before; }));
}

TEST_F(EgressTest, GoesOnUnderANewRunner) {
  std::string link = start('a');
  world_->kill();
  EXPECT_THAT(hear(link, "9.9.9.9"), HasSubstr("gateway"));
  ASSERT_TRUE(world_->start({}, {"--egress-port", std::to_string(port_)}));
  EXPECT_THAT(hear(link, "9.9.9.9"), HasSubstr("gateway"));
}

TEST_F(EgressTest, ALabelledProcessHasAnAliasOfItsOwn) {
  auto reply = World::start_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(reply && reply->status.ok == 1);
  std::string link = reply->interface.str();
  auto expect_all = [&] {
    EXPECT_THAT(hear(link, "9.9.9.9"), HasSubstr(alias(reply->slot) + ":0"));
    for (std::uint32_t label : {1u, 2u})
      EXPECT_THAT(hear_as(label, link), HasSubstr(text(runner::label_alias(reply->slot, label)) + ":0"));
  };
  wire::Done done = label('a', 2);
  ASSERT_EQ(done.status.ok, 1) << done.status.message.str();
  expect_all();
  // More of them later, and the same once more, change nothing for those that are there.
  ASSERT_EQ(label('a', 15).status.ok, 1);
  ASSERT_EQ(label('a', 1).status.ok, 1);
  expect_all();
  world_->kill();
  expect_all();
  ASSERT_TRUE(world_->start({}, {"--egress-port", std::to_string(port_)}));
  client_.emplace(world_->socket());
  expect_all();
  EXPECT_EQ(label('a', 16).status.code, static_cast<std::uint8_t>(Code::kInvalid));
}

TEST_F(EgressTest, NothingOfLabelsIsLeftToTheNextOwnerOfTheSlot) {
  auto reply = World::start_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(reply && reply->status.ok == 1);
  ASSERT_EQ(label('a', 3).status.ok, 1);
  EXPECT_THAT(hear_as(3, reply->interface.str()), HasSubstr("gateway"));
  World::stop_sandbox(*client_, World::id('a'));
  EXPECT_THAT(world_->leftovers(World::id('a')), testing::IsEmpty());
  std::string out = world_->path("labels");
  std::string command = fmt::format("nft list map inet {} labels > {}", world_->name(), out);
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_THAT(*sys::read_file(out), Not(HasSubstr("169.254.1.")));
}

// Until the next one of a crash of the runner in the middle, nothing has a label; then everything is made.
TEST_F(EgressTest, LabelsThatWereHalfMadeAreMadeAgain) {
  for (const char* point : {"runner.labels.after_groups", "runner.labels.after_table",
                            "runner.labels.after_rules", "runner.labels.after_record"}) {
    SCOPED_TRACE(point);
    world_->kill();
    ASSERT_TRUE(world_->start(point, {"--egress-port", std::to_string(port_)})) << world_->log();
    client_.emplace(world_->socket());
    auto reply = World::start_sandbox(*client_, World::id('a'));
    ASSERT_TRUE(reply && reply->status.ok == 1);
    wire::LabelsRequest request{};
    request.sandbox.set(World::id('a'));
    request.count = 2;
    client_->send(request, wire::Type::kLabels);
    EXPECT_FALSE(client_->receive<wire::Done>(wire::Type::kDone));
    world_->kill();
    ASSERT_TRUE(world_->start({}, {"--egress-port", std::to_string(port_)})) << world_->log();
    client_.emplace(world_->socket());
    ASSERT_EQ(label('a', 2).status.ok, 1);
    std::string heard = hear_as(2, reply->interface.str());
    EXPECT_THAT(heard, HasSubstr(text(runner::label_alias(reply->slot, 2)) + ":0"));
    World::stop_sandbox(*client_, World::id('a'));
    EXPECT_THAT(world_->leftovers(World::id('a')), testing::IsEmpty());
  }
}

}  // namespace
}  // namespace atl::runner_test
