// SPDX-License-Identifier: Apache-2.0
//
// The runner over its wire: starting and stopping, refusals, restarts. With the real kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/runner_fixture.h"

namespace atl::runner_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RunnerTest : public RunnerFixture {
 protected:
  void SetUp() override {
    RunnerFixture::SetUp();
    if (world_) RunnerFixture::start();
  }
  // Starts a sandbox that must start; its link.
  std::string started(char letter) {
    auto reply = World::start_sandbox(*client_, World::id(letter));
    if (!reply || reply->status.ok == 0) {
      ADD_FAILURE() << (reply ? reply->status.message.str() : "no reply") << "\n" << world_->log();
      return {};
    }
    return reply->interface.str();
  }
  void reconnect() { client_.emplace(world_->socket()); }
};

TEST_F(RunnerTest, HelloTellsWhatThisHostCanDo) {
  client_->send(wire::Empty{}, wire::Type::kHello);
  auto reply = client_->receive<wire::HelloReply>(wire::Type::kHelloReply);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status.ok, 1);
  EXPECT_EQ(reply->slots_total, 40u);
  EXPECT_EQ(reply->tiers, 1u << static_cast<unsigned>(model::Tier::kContainer));
  EXPECT_GE(reply->cgroup_mode, 1);
}

TEST_F(RunnerTest, StoppedSandboxLeavesNothing) {
  auto reply = World::start_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(reply);
  ASSERT_EQ(reply->status.ok, 1) << reply->status.message.str();
  EXPECT_EQ(World::shell(reply->interface.str(), "echo here"), "here\n");
  EXPECT_FALSE(world_->leftovers(World::id('a')).empty());

  auto stopped = World::stop_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->status.ok, 1) << stopped->status.message.str();
  EXPECT_EQ(stopped->was_running, 1);
  // It has ended; that the launcher has reaped it, too, comes a little later.
  EXPECT_TRUE(soon([&] { return ::kill(static_cast<pid_t>(reply->pid), 0) != 0; }));
  EXPECT_TRUE(soon([&] { return world_->leftovers(World::id('a')).empty(); }))
      << testing::PrintToString(world_->leftovers(World::id('a')));
}

TEST_F(RunnerTest, EveryStepOfAStartIsMeasured) {
  auto reply = World::start_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(reply && reply->status.ok == 1);
  for (auto step :
       {wire::kStepCgroup, wire::kStepClone, wire::kStepMounts, wire::kStepConfine, wire::kStepExec}) {
    EXPECT_GT(reply->step_us[step], 0u) << step;
  }
  EXPECT_GT(reply->step_us[wire::kStepTotal], reply->step_us[wire::kStepMounts]);
}

TEST_F(RunnerTest, StoppingTwiceSaysNotFound) {
  started('a');
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('a'))->status.ok, 1);
  auto again = World::stop_sandbox(*client_, World::id('a'));
  EXPECT_EQ(again->status.ok, 0);
  EXPECT_EQ(again->status.code, static_cast<std::uint8_t>(Code::kNotFound));
}

TEST_F(RunnerTest, RefusesASecondSandboxOfTheSameId) {
  std::string link = started('a');
  auto second = World::start_sandbox(*client_, World::id('a'));
  EXPECT_EQ(second->status.code, static_cast<std::uint8_t>(Code::kExists));
  EXPECT_EQ(World::shell(link, "echo here"), "here\n");  // the first one is not disturbed
}

TEST_F(RunnerTest, RefusesWhatItCannotDo) {
  auto refused = [&](auto change) {
    wire::StartRequest request = World::request(World::id('b'));
    change(request);
    auto reply = World::start_sandbox(*client_, request);
    EXPECT_TRUE(reply && reply->status.ok == 0);
    return reply ? reply->status.word.str() : "";
  };
  EXPECT_EQ(refused([](auto& r) { r.tier = static_cast<std::uint8_t>(model::Tier::kMicrovm); }),
            "isolation_unavailable");
  EXPECT_EQ(refused([](auto& r) { r.tier = 0; }), "isolation_unavailable");
  EXPECT_EQ(refused([](auto& r) { r.build.set("33333333-3333-4333-8333-333333333333"); }),
            "template_not_found");
  EXPECT_EQ(refused([](auto& r) { r.build.set("../../../../../etc/passwd-3333-333333"); }), "invalid");
  EXPECT_EQ(refused([](auto& r) { r.sandbox.set("../x"); }), "invalid");
  EXPECT_EQ(refused([](auto& r) { r.memory_bytes = 1; }), "invalid");
  EXPECT_EQ(refused([](auto& r) { r.disk_bytes = ~0ull; }), "invalid");
  EXPECT_EQ(refused([](auto& r) { r.processes = 0; }), "invalid");
  EXPECT_THAT(World::list(*client_), IsEmpty());
  EXPECT_THAT(world_->leftovers(World::id('b')), IsEmpty());
}

TEST_F(RunnerTest, MessageOfAWrongShapeEndsTheConnection) {
  auto ended = [&](auto change, std::size_t size) {
    WireClient client(world_->socket());
    struct {
      wire::Empty message;
      char more[8];
    } raw{};
    raw.message.header = {wire::kMagic, wire::kVersion, static_cast<std::uint16_t>(wire::Type::kHello), 1};
    change(raw.message.header);
    client.send_raw(&raw, size);
    return client.ended();
  };
  auto nothing = [](wire::Header&) {};
  EXPECT_TRUE(ended(nothing, sizeof(wire::Empty) + 1));
  EXPECT_TRUE(ended(nothing, sizeof(wire::Empty) - 1));
  EXPECT_TRUE(ended(nothing, 1));
  EXPECT_TRUE(ended([](wire::Header& h) { h.magic = 1; }, sizeof(wire::Empty)));
  EXPECT_TRUE(ended([](wire::Header& h) { h.version = 9; }, sizeof(wire::Empty)));
  EXPECT_TRUE(ended([](wire::Header& h) { h.type = 77; }, sizeof(wire::Empty)));
  EXPECT_TRUE(ended([](wire::Header& h) { h.id = 0; }, sizeof(wire::Empty)));
  reconnect();
  EXPECT_THAT(World::list(*client_), IsEmpty());  // the runner itself goes on
}

TEST_F(RunnerTest, OnlyTheControlUserMayConnect) {
  auto answered_as = [&](uid_t uid) {
    pid_t child = ::fork();
    if (child == 0) {
      // The socket's mode is one wall, the kernel's word about the peer the other: this tests the second.
      if (::setgid(0) != 0 || ::setuid(uid) != 0) ::_exit(3);
      WireClient client(world_->socket());
      if (!client.open()) ::_exit(2);
      client.send(wire::Empty{}, wire::Type::kHello);
      ::_exit(client.receive<wire::HelloReply>(wire::Type::kHelloReply) ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  ::chmod(world_->socket().c_str(), 0666);
  EXPECT_EQ(answered_as(1234), 0);
  EXPECT_EQ(answered_as(4321), 1);
}

TEST_F(RunnerTest, NewerConnectionReplacesTheOlder) {
  WireClient second(world_->socket());
  second.send(wire::Empty{}, wire::Type::kHello);
  EXPECT_TRUE(second.receive<wire::HelloReply>(wire::Type::kHelloReply));
  EXPECT_TRUE(client_->ended());
}

TEST_F(RunnerTest, TellsWhenPid1Ends) {
  auto reply = World::start_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(reply && reply->status.ok == 1);
  ::kill(static_cast<pid_t>(reply->pid), SIGKILL);
  auto event = client_->receive<wire::ExitedEvent>(wire::Type::kExited);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->sandbox.str(), World::id('a'));
  EXPECT_EQ(event->generation, 7u);
  EXPECT_TRUE(WIFSIGNALED(event->wait_status) && WTERMSIG(event->wait_status) == SIGKILL);
  // Its things stay until control has seen it and says stop.
  EXPECT_EQ(World::list(*client_).at(World::id('a')).alive, 0);
  auto stopped = World::stop_sandbox(*client_, World::id('a'));
  EXPECT_EQ(stopped->status.ok, 1);
  EXPECT_EQ(stopped->was_running, 0);
}

TEST_F(RunnerTest, ManyAtOnce) {
  constexpr int kMany = 30;
  for (int i = 0; i < kMany; ++i)
    client_->send(
        World::request(World::id(static_cast<char>('a' + i % 26)).substr(0, 20) + std::to_string(i % 10)),
        wire::Type::kStart);
  std::set<std::uint32_t> slots;
  int good = 0;
  for (int i = 0; i < kMany; ++i) {
    auto reply = client_->receive<wire::StartReply>(wire::Type::kStartReply);
    ASSERT_TRUE(reply);
    if (reply->status.ok == 0) continue;
    ++good;
    slots.insert(reply->slot);
  }
  EXPECT_EQ(good, kMany);
  EXPECT_EQ(slots.size(), static_cast<std::size_t>(good));  // no slot has two owners
  for (const auto& [id, entry] : World::list(*client_))
    EXPECT_EQ(World::stop_sandbox(*client_, id)->status.ok, 1);
  EXPECT_THAT(World::list(*client_), IsEmpty());
}

TEST_F(RunnerTest, SaysSoWhenAllSlotsAreTaken) {
  ASSERT_EQ(WEXITSTATUS(world_->terminate()), 0);
  ASSERT_TRUE(world_->start({}, {"--slot-count", "2"}));
  reconnect();
  started('a');
  started('b');
  auto third = World::start_sandbox(*client_, World::id('c'));
  EXPECT_EQ(third->status.code, static_cast<std::uint8_t>(Code::kExhausted));
  EXPECT_EQ(third->status.word.str(), "host_capacity");
  World::stop_sandbox(*client_, World::id('a'));
  started('c');  // waits for the slot that is being taken back
}

TEST_F(RunnerTest, SandboxSurvivesTheRunner) {
  auto before = World::start_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(before && before->status.ok == 1);
  std::string link = before->interface.str();
  EXPECT_EQ(World::shell(link, "echo mark > /tmp/mark"), "");
  world_->kill();
  EXPECT_EQ(World::shell(link, "cat /tmp/mark"), "mark\n");  // while no runner is there

  ASSERT_TRUE(world_->start()) << world_->log();
  reconnect();
  auto all = World::list(*client_);
  ASSERT_TRUE(all.contains(World::id('a')));
  const wire::ListReply& after = all.at(World::id('a'));
  EXPECT_EQ(after.alive, 1);
  EXPECT_EQ(after.pid, before->pid);
  EXPECT_EQ(after.start_ticks, before->start_ticks);
  EXPECT_EQ(after.slot, before->slot);
  EXPECT_EQ(after.owner_epoch, 3u);
  EXPECT_EQ(after.build.str(), kBuild);
  EXPECT_NE(started('b'), link);  // the slot is not given out again

  // Its end is noticed although the runner is not its parent.
  ::kill(static_cast<pid_t>(before->pid), SIGKILL);
  auto event = client_->receive<wire::ExitedEvent>(wire::Type::kExited);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->wait_status, -1);
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('a'))->status.ok, 1);
  EXPECT_TRUE(soon([&] { return world_->leftovers(World::id('a')).empty(); }));
}

TEST_F(RunnerTest, SandboxOfAnotherSlotRangeIsKeptAndStaysConfined) {
  wire::StartRequest request = World::request(World::id('a'));
  request.internet = 0;
  auto reply = World::start_sandbox(*client_, request);
  ASSERT_TRUE(reply && reply->status.ok == 1);
  world_->kill();
  ASSERT_TRUE(world_->start({}, {"--slot-first", "3100"})) << world_->log();
  reconnect();
  std::string link = reply->interface.str();
  EXPECT_EQ(World::shell(link, "echo here"), "here\n");
  std::string heard = World::shell(link, fmt::format("echo | nc -w 2 9.9.9.9 {} 2>&1", kSinkPort));
  EXPECT_EQ(heard.find("internet"), std::string::npos);
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('a'))->status.ok, 1);
  EXPECT_NE(started('b'), link);
}

TEST_F(RunnerTest, SandboxThatEndedMeanwhileIsHeldUntilStop) {
  auto reply = World::start_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(reply && reply->status.ok == 1);
  world_->kill();
  ::kill(static_cast<pid_t>(reply->pid), SIGKILL);
  ASSERT_TRUE(soon([&] { return ::kill(static_cast<pid_t>(reply->pid), 0) != 0; }));
  ASSERT_TRUE(world_->start());
  reconnect();
  EXPECT_EQ(World::list(*client_).at(World::id('a')).alive, 0);
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('a'))->status.ok, 1);
  EXPECT_TRUE(soon([&] { return world_->leftovers(World::id('a')).empty(); }));
}

TEST_F(RunnerTest, RunnerEndsWithItsLauncherAndSandboxesGoOn) {
  std::string link = started('a');
  ::kill(world_->launcher(), SIGKILL);
  auto status = world_->wait_death();
  ASSERT_TRUE(status);
  EXPECT_EQ(WEXITSTATUS(*status), 1);
  EXPECT_EQ(World::shell(link, "echo here"), "here\n");
}

TEST_F(RunnerTest, LauncherEndsWithItsRunner) {
  pid_t launcher = world_->launcher();
  ASSERT_EQ(::kill(launcher, 0), 0);
  world_->kill();
  EXPECT_TRUE(soon([&] {
    return sys::read_file(fmt::format("/proc/{}/comm", launcher)).value_or("") != "atoll-launcher\n";
  }));
}

TEST_F(RunnerTest, SecondRunnerOnTheSameDirectoryIsRefused) {
  pid_t first = world_->pid();
  std::string command =
      fmt::format("{} --data-dir {} --run-dir {} --control-uid 0 --guestd {} 2>&1", ATOLL_RUNNER_PROGRAM,
                  world_->path("data"), world_->path("run"), ATOLL_STUB_GUESTD);
  std::unique_ptr<FILE, int (*)(FILE*)> output(::popen(command.c_str(), "r"), ::pclose);
  char text[1024] = {};
  static_cast<void>(std::fread(text, 1, sizeof text - 1, output.get()));
  EXPECT_THAT(std::string(text), HasSubstr("another runner works in"));
  EXPECT_EQ(::kill(first, 0), 0);
  started('a');
}

TEST_F(RunnerTest, CleanEndWithoutSandboxesLeavesNothing) {
  started('a');
  World::stop_sandbox(*client_, World::id('a'));
  EXPECT_EQ(WEXITSTATUS(world_->terminate()), 0);
  EXPECT_TRUE(soon([] { return World::links().empty(); }));
  for (const std::string& top : World::hierarchies()) {
    EXPECT_NE(::access((top + "/" + world_->name()).c_str(), F_OK), 0) << top;
  }
  EXPECT_NE(::access(world_->socket().c_str(), F_OK), 0);
  // Templates of disks are kept for the next start; nothing else is.
  EXPECT_THAT(sys::list_directory(world_->path("data/disks")).value_or({}), ElementsAre("template-67108864"));
}

TEST_F(RunnerTest, ForgottenTemplateIsReleased) {
  started('a');
  World::stop_sandbox(*client_, World::id('a'));
  auto loops = [&] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/sys/block")) {
      std::string backing = sys::read_file(entry.path().string() + "/loop/backing_file").value_or("");
      count += backing.starts_with(world_->path("data/templates")) ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(loops(), 1);
  wire::BuildRef ref{};
  ref.build.set(kBuild);
  client_->send(ref, wire::Type::kForget);
  EXPECT_EQ(client_->receive<wire::Done>(wire::Type::kDone)->status.ok, 1);
  EXPECT_TRUE(soon([&] { return loops() == 0; }));
  started('b');  // and is opened again when it is wanted
}

}  // namespace
}  // namespace atl::runner_test
