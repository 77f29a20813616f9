// SPDX-License-Identifier: Apache-2.0
//
// The gvisor tier over the runner's wire, with the real runsc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/text.h"
#include "model/overhead.h"
#include "runner/gvisor/check.h"
#include "support/gvisor_fixture.h"

namespace atl::runner_test {

namespace gvisor = runner::gvisor;

namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// What gVisor calls itself in /proc/version, always.
constexpr char kVersion[] = "Linux version 4.4.0 #1 SMP Sun Jan 10";
constexpr auto kGvisorBit = 1u << static_cast<unsigned>(model::Tier::kGvisor);

TEST(RunscVersion, YearsAreReadFromBothKindsOfNames) {
  EXPECT_EQ(gvisor::release_year("runsc version 0.0~20240729.0\nspec: 1.0.2-dev\n"), 2024);
  EXPECT_EQ(gvisor::release_year("runsc version release-20221219.0\n"), 2022);
  EXPECT_EQ(gvisor::release_year("runsc version VERSION_MISSING\n"), 0);
  EXPECT_EQ(gvisor::release_year("version 99999999"), 0);
  EXPECT_EQ(gvisor::release_year(""), 0);
}

TEST_F(GvisorTest, StartsAnswersAndLeavesNothing) {
  start();
  EXPECT_TRUE(hello().tiers & kGvisorBit);
  wire::StartReply reply = started(request('a'));
  std::string link = reply.interface.str();
  EXPECT_THAT(World::shell(link, "cat /proc/version"), HasSubstr(kVersion));
  EXPECT_EQ(World::shell(link, "hostname"), World::id('a') + "\n");
  wire::SandboxRef ref{};
  ref.sandbox.set(World::id('a'));
  client_->send(ref, wire::Type::kStats);
  auto stats = client_->receive<wire::StatsReply>(wire::Type::kStatsReply);
  ASSERT_TRUE(stats);
  EXPECT_EQ(stats->memory_limit,
            request('a').memory_bytes + model::overhead_of(model::Tier::kGvisor, 0).memory_bytes)
      << "the guest's kernel takes nothing from the sandbox";
  auto stopped = World::stop_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->status.ok, 1) << stopped->status.message.str();
  EXPECT_EQ(stopped->was_running, 1);
  // It has ended; whoever reaps it may come a little later.
  EXPECT_TRUE(soon([&] { return ::kill(static_cast<pid_t>(reply.pid), 0) != 0; }));
  EXPECT_TRUE(gone('a')) << testing::PrintToString(world_->leftovers(World::id('a')));
  EXPECT_TRUE(soon([&] { return world_->stray_helpers().empty(); }));
}

TEST_F(GvisorTest, NoProcessOnTheHostHasRightsThere) {
  start();
  wire::StartReply reply = started(request('a'));
  std::string group;
  for (const std::string& top : World::hierarchies()) {
    std::string text =
        sys::read_file(top + "/" + world_->name() + "/" + World::id('a') + "/cgroup.procs").value_or("");
    if (text.size() > group.size()) group = text;
  }
  std::uint32_t base = 0x7000'0000 + reply.slot * 65536;
  int seen = 0, without_capabilities = 0;
  for (std::string_view pid : split(std::string_view(group), '\n')) {
    if (pid.empty()) continue;
    std::string status = sys::read_file(fmt::format("/proc/{}/status", pid)).value_or("");
    unsigned uid = 0;
    ASSERT_NE(status.find("\nUid:"), std::string::npos);
    std::sscanf(status.c_str() + status.find("\nUid:"), "\nUid:\t%u", &uid);
    EXPECT_GE(uid, base) << status;
    EXPECT_LT(uid, base + 65536);
    EXPECT_THAT(status, HasSubstr("NoNewPrivs:\t1"));
    without_capabilities += status.find("CapEff:\t0000000000000000") != std::string::npos ? 1 : 0;
    ++seen;
  }
  EXPECT_GE(seen, 3);  // PID 1, the gofer, the guest's kernel, and what runs its programs
  EXPECT_EQ(without_capabilities, seen - 1);  // all but the gofer, which opens files for users of the sandbox
  std::string command = sys::read_file(fmt::format("/proc/{}/cmdline", reply.pid)).value_or("");
  EXPECT_THAT(command, Not(HasSubstr("atoll-runner")));
  EXPECT_GE(World::keys_of(base), 1u) << "the session keyring is the launcher's";
}

TEST_F(GvisorTest, FilesOfTmpAreOnTheBoundedDiskToo) {
  start();
  std::string link = this->link('a');
  EXPECT_EQ(World::shell(link, "ls -A /tmp"), "");
  EXPECT_THAT(World::shell(link, "dd if=/dev/zero of=/tmp/fill bs=1M count=100 2>&1; rm /tmp/fill"),
              HasSubstr("No space left on device"));
  EXPECT_EQ(World::shell(link, "echo kept > /tmp/x; cat /tmp/x"), "kept\n");
  wire::SandboxRef ref{};
  ref.sandbox.set(World::id('a'));
  client_->send(ref, wire::Type::kStats);
  auto stats = client_->receive<wire::StatsReply>(wire::Type::kStatsReply);
  ASSERT_TRUE(stats && stats->status.ok == 1) << (stats ? stats->status.message.str() : "");
  EXPECT_LE(stats->disk_total, 64ull << 20);
  EXPECT_GT(stats->disk_used, 0u);
  EXPECT_GT(stats->memory_used, 1u << 20);
}

TEST_F(GvisorTest, MemoryIsWhatItMayUse) {
  start();
  EXPECT_THAT(World::shell(link('a'), "head -1 /proc/meminfo"), HasSubstr("262144 kB"));
}

TEST_F(GvisorTest, TooMuchMemoryEndsTheSandboxAndSaysWhy) {
  start();
  std::string link = this->link('a');
  World::shell(link, "tail /dev/zero </dev/null >/dev/null 2>&1 &");
  auto event = client_->receive<wire::ExitedEvent>(wire::Type::kExited);
  // To fill it takes long on a busy machine.
  if (!event) event = client_->receive<wire::ExitedEvent>(wire::Type::kExited);
  ASSERT_TRUE(event);
  EXPECT_GT(event->oom_kills, 0u);
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('a'))->status.ok, 1);
  EXPECT_TRUE(gone('a'));
}

TEST_F(GvisorTest, ReachesTheInternetAndNothingElse) {
  start();
  std::string link = this->link('a');
  auto ask = [&](const std::string& address) {
    return World::shell(link, fmt::format("echo | nc -w 3 {} {} 2>&1", address, kSinkPort));
  };
  EXPECT_THAT(ask("9.9.9.9"), HasSubstr("internet\n"));
  for (const char* address : {"169.254.169.254", "10.1.1.1", "169.254.0.22", "203.0.113.2"}) {
    std::string heard = ask(address);
    EXPECT_THAT(heard, Not(AnyOf(HasSubstr("internet\n"), HasSubstr("host\n")))) << address;
  }
  EXPECT_THAT(World::shell(link, "ip addr"), HasSubstr("169.254.0.21"));
}

TEST_F(GvisorTest, HostileTemplatesAreKeptInside) {
  start();
  wire::StartRequest wanted = request('a');
  wanted.build.set(kHostileBuild);
  std::string link = started(wanted).interface.str();
  EXPECT_EQ(World::shell(link, "echo x > /tmp/y; cat /tmp/y"), "x\n");
  EXPECT_THAT(sys::list_directory(world_->path("victim")).value_or({}), IsEmpty());
}

TEST_F(GvisorTest, SandboxSurvivesTheRunner) {
  start();
  wire::StartReply before = started(request('a'));
  std::string link = before.interface.str();
  EXPECT_EQ(World::shell(link, "echo mark > /tmp/mark"), "");
  world_->kill();
  EXPECT_EQ(World::shell(link, "cat /tmp/mark"), "mark\n");  // while no runner is there
  start("none");  // nothing new can be started, and what runs is taken over all the same
  auto all = World::list(*client_);
  ASSERT_TRUE(all.contains(World::id('a')));
  EXPECT_EQ(all.at(World::id('a')).alive, 1);
  EXPECT_EQ(all.at(World::id('a')).pid, before.pid);
  EXPECT_EQ(all.at(World::id('a')).tier, static_cast<std::uint8_t>(model::Tier::kGvisor));
  EXPECT_EQ(World::shell(link, "cat /tmp/mark"), "mark\n");
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('a'))->status.ok, 1);
  EXPECT_TRUE(gone('a'));
}

TEST_F(GvisorTest, EndOfAnyOfItsProcessesIsTheEndOfAll) {
  start();
  wire::StartReply reply = started(request('a'));
  std::string children = sys::read_file(fmt::format("/proc/{0}/task/{0}/children", reply.pid)).value_or("");
  pid_t first = parse_number<pid_t>(children.substr(0, children.find(' '))).value_or(0);  // the gofer
  ASSERT_GT(first, 1);
  ::kill(first, SIGKILL);
  auto event = client_->receive<wire::ExitedEvent>(wire::Type::kExited);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->sandbox.str(), World::id('a'));
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('a'))->status.ok, 1);
  EXPECT_TRUE(gone('a'));
}

TEST_F(GvisorTest, RestsInMemoryAndOnItsDisk) {
  start();
  std::string link = this->link('a');
  World::shell(link, "echo kept > /tmp/kept; sync");
  for (auto memory : {World::Memory::kKept, World::Memory::kLost}) {
    auto paused = World::pause_sandbox(*client_, World::id('a'), memory);
    ASSERT_TRUE(paused && paused->status.ok == 1) << (paused ? paused->status.message.str() : "");
    client_->send(request('a'), wire::Type::kResume);
    auto resumed = client_->receive<wire::StartReply>(wire::Type::kStartReply);
    ASSERT_TRUE(resumed && resumed->status.ok == 1) << (resumed ? resumed->status.message.str() : "");
    EXPECT_EQ(World::shell(resumed->interface.str(), "cat /tmp/kept; ls -A /tmp"), "kept\nkept\n");
  }
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('a'))->status.ok, 1);
  EXPECT_TRUE(gone('a'));
}

TEST_F(GvisorTest, ManyAtOnceAndBesideContainers) {
  start();
  std::map<char, std::string> links;
  for (char letter : {'a', 'b', 'c'}) links[letter] = link(letter);
  auto container = World::start_sandbox(*client_, World::id('d'));
  ASSERT_TRUE(container && container->status.ok == 1);
  for (auto& [letter, link] : links) EXPECT_EQ(World::shell(link, "hostname"), World::id(letter) + "\n");
  EXPECT_THAT(World::shell(container->interface.str(), "cat /proc/version"), Not(HasSubstr(kVersion)));
  for (char letter : {'a', 'b', 'c', 'd'}) {
    EXPECT_EQ(World::stop_sandbox(*client_, World::id(letter))->status.ok, 1);
    EXPECT_TRUE(gone(letter));
  }
}

TEST_F(GvisorTest, SwitchedOffIsRefusedWithTheReasonAndNeverReplaced) {
  start("none");
  wire::HelloReply said = hello();
  EXPECT_FALSE(said.tiers & kGvisorBit);
  std::string why = said.obstacle[static_cast<std::size_t>(model::Tier::kGvisor)].str();
  EXPECT_THAT(why, HasSubstr("--runsc none"));
  auto reply = World::start_sandbox(*client_, request('a'));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status.word.str(), "isolation_unavailable");
  EXPECT_THAT(reply->status.message.str(), HasSubstr("--runsc none"));
  EXPECT_THAT(World::list(*client_), IsEmpty());
}

TEST_F(GvisorTest, AnOldRunscIsRefusedWithTheReason) {
  start(ATOLL_STUB_RUNSC_OLD);
  EXPECT_THAT(hello().obstacle[2].str(), HasSubstr("before 2024"));
}

TEST_F(GvisorTest, ARunscThatCannotStartFailsItsSelfTestAndLeavesNothing) {
  start(ATOLL_STUB_RUNSC_FAILING);
  EXPECT_FALSE(hello().tiers & kGvisorBit);
  EXPECT_THAT(hello().obstacle[2].str(), HasSubstr("self-test"));
  EXPECT_THAT(World::list(*client_), IsEmpty());
  auto container = World::start_sandbox(*client_, World::id('d'));
  ASSERT_TRUE(container && container->status.ok == 1);
  World::stop_sandbox(*client_, World::id('d'));
  EXPECT_EQ(WEXITSTATUS(world_->terminate()), 0);
  EXPECT_TRUE(soon([] { return World::links().empty(); }));
}

// Whatever takes long is beside the service, and no reason to wait for when the runner is to stop.
TEST_F(GvisorTest, TheRunnerServesWhileItTestsATierAndStopsInTheMiddle) {
  ASSERT_TRUE(world_->start({}, {"--runsc", ATOLL_STUB_RUNSC_HANGING})) << world_->log();
  client_.emplace(world_->socket());
  wire::HelloReply said = hello();
  EXPECT_EQ(said.tested_tiers, kGvisorBit);
  EXPECT_FALSE(said.tiers & kGvisorBit);
  EXPECT_EQ(said.obstacle[2].str(), "");
  EXPECT_EQ(said.features.error[static_cast<std::size_t>(model::Feature::kRunscStarts)], model::kNotTried);
  auto container = World::start_sandbox(*client_, World::id('d'));
  ASSERT_TRUE(container && container->status.ok == 1);
  auto refused = World::start_sandbox(*client_, request('a'));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status.word.str(), "isolation_being_tested");
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('d'))->status.ok, 1);
  EXPECT_EQ(hello().tested_tiers, kGvisorBit) << "the test has ended before its time";
  EXPECT_EQ(WEXITSTATUS(world_->terminate()), 0);
  EXPECT_FALSE(sys::read_file(world_->path("run/gvisor.tested")).ok()) << "nothing was found out";
  EXPECT_TRUE(world_->leftovers("iselftestofthegvisort").empty());
  EXPECT_TRUE(soon([] { return World::links().empty(); }));
}

TEST_F(GvisorTest, WhatWasFoundOutIsRememberedForTheSamePrograms) {
  start();
  EXPECT_EQ(WEXITSTATUS(world_->terminate()), 0);
  std::string kept = sys::read_file(world_->path("run/gvisor.tested")).value_or("");
  ASSERT_NE(kept, "");
  // A runner that tests says so in its first answer.
  auto first_answer = [this] {
    EXPECT_TRUE(world_->start({}, {"--runsc", World::runsc()})) << world_->log();
    client_.emplace(world_->socket());
    wire::HelloReply said = hello();
    client_->hello_when_tested();
    EXPECT_TRUE(hello().tiers & kGvisorBit);
    world_->terminate();
    return said;
  };
  EXPECT_TRUE(first_answer().tiers & kGvisorBit);
  for (const char* changed : {"atoll-guestd ", "-"}) {  // of another daemon, of another boot
    std::string other = kept;
    other.replace(other.find(changed), 1, "x");
    std::ofstream(world_->path("run/gvisor.tested")) << other;
    EXPECT_EQ(first_answer().tested_tiers, kGvisorBit) << changed;
  }
}

class GvisorFaultTest : public GvisorTest, public testing::WithParamInterface<const char*> {};

// The self-test passes the same points, so a runner that dies there must leave nothing either.
TEST_P(GvisorFaultTest, ADeadRunnerLeavesNothing) {
  world_->start(GetParam(), {"--runsc", World::runsc()});
  ASSERT_TRUE(world_->wait_death()) << "the point was never reached";
  start();
  EXPECT_THAT(World::list(*client_), IsEmpty());
  EXPECT_EQ(World::shell(link('a'), "echo here"), "here\n");
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('a'))->status.ok, 1);
  EXPECT_TRUE(gone('a'));
  EXPECT_TRUE(world_->leftovers("iselftestofthegvisort").empty());
  EXPECT_TRUE(soon([&] { return world_->stray_helpers().empty(); }));
}
INSTANTIATE_TEST_SUITE_P(Points, GvisorFaultTest,
                         testing::Values("launcher.after_clone", "launcher.after_maps",
                                         "launcher.before_answer", "runner.start.after_clone",
                                         "runner.start.after_exec", "runner.stop.after_kill"));

}  // namespace
}  // namespace atl::runner_test
