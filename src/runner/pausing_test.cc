// SPDX-License-Identifier: Apache-2.0
//
// Sandboxes that come to rest and go on: in memory, on their disk, across deaths of the runner at each edge.
// With the real kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "support/runner_fixture.h"

namespace atl::runner_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using Memory = World::Memory;
using wire::Rest;

class PausingTest : public RunnerFixture {
 protected:
  void SetUp() override {
    RunnerFixture::SetUp();
    if (world_) start();
  }
  // Starts a sandbox, which must work; its answer.
  wire::StartReply started(char letter = 'a') {
    auto reply = World::start_sandbox(*client_, World::id(letter));
    EXPECT_TRUE(reply && reply->status.ok == 1) << world_->log();
    return reply.value_or(wire::StartReply{});
  }
  std::string paused(Memory memory, char letter = 'a') {
    auto reply = World::pause_sandbox(*client_, World::id(letter), memory);
    if (!reply) return "no reply";
    return reply->status.ok == 1 ? "ok" : reply->status.word.str() + ": " + reply->status.message.str();
  }
  std::optional<wire::StartReply> resumed(std::uint64_t generation, char letter = 'a') {
    return World::resume_sandbox(*client_, World::id(letter), generation);
  }
  wire::ListReply listed(char letter = 'a') {
    auto all = World::list(*client_);
    auto found = all.find(World::id(letter));
    return found == all.end() ? wire::ListReply{} : found->second;
  }
  Rest rest() { return static_cast<Rest>(listed().rest); }
  // What the kernel says of the sandbox's group.
  bool frozen() {
    for (const std::string& top : World::hierarchies()) {
      std::string events =
          sys::read_file(top + "/" + world_->name() + "/" + World::id('a') + "/cgroup.events").value_or("");
      if (events.find("frozen 1") != std::string::npos) return true;
    }
    return false;
  }
  void expect_end_without_leftovers() {
    auto stopped = World::stop_sandbox(*client_, World::id('a'));
    ASSERT_TRUE(stopped);
    EXPECT_EQ(stopped->status.ok, 1) << stopped->status.message.str();
    EXPECT_TRUE(soon([&] { return world_->leftovers(World::id('a')).empty(); }))
        << testing::PrintToString(world_->leftovers(World::id('a')));
  }
};

// Counts in a file, as fast as it can.
constexpr char kCounter[] =
    "(i=0; while true; do i=$((i+1)); echo $i >/tmp/n.new; cp /tmp/n.new /tmp/n; done) >/dev/null 2>&1 "
    "</dev/null &";

TEST_F(PausingTest, StandsStillAndGoesOn) {
  wire::StartReply start = started();
  std::string link = start.interface.str();
  World::shell(link, kCounter);
  ASSERT_TRUE(soon([&] { return !World::shell(link, "cat /tmp/n").empty(); }));
  ASSERT_EQ(paused(Memory::kKept), "ok");
  EXPECT_TRUE(frozen());
  EXPECT_EQ(rest(), Rest::kFrozen);
  EXPECT_EQ(listed().alive, 1);
  EXPECT_EQ(paused(Memory::kKept), "ok");  // again: it is so already

  auto again = resumed(8);
  ASSERT_TRUE(again);
  ASSERT_EQ(again->status.ok, 1) << again->status.message.str();
  EXPECT_FALSE(frozen());
  EXPECT_EQ(again->pid, start.pid);
  EXPECT_EQ(again->slot, start.slot);
  EXPECT_EQ(rest(), Rest::kRuns);
  EXPECT_EQ(listed().generation, 8u);
  std::string before = World::shell(link, "cat /tmp/n");
  EXPECT_TRUE(soon([&] { return World::shell(link, "cat /tmp/n") != before; })) << "the counter stands still";
  expect_end_without_leftovers();
}

TEST_F(PausingTest, FrozenOneCanBeStopped) {
  started();
  ASSERT_EQ(paused(Memory::kKept), "ok");
  expect_end_without_leftovers();
}

TEST_F(PausingTest, EndOfAFrozenOneIsTold) {
  wire::StartReply start = started();
  ASSERT_EQ(paused(Memory::kKept), "ok");
  ASSERT_EQ(::kill(static_cast<pid_t>(start.pid), SIGKILL), 0);
  auto event = client_->receive<wire::ExitedEvent>(wire::Type::kExited);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->sandbox.str(), World::id('a'));
  EXPECT_EQ(resumed(8)->status.ok, 0);
}

TEST_F(PausingTest, AnotherRunnerKnowsThatItIsPaused) {
  wire::StartReply start = started();
  ASSERT_EQ(paused(Memory::kKept), "ok");
  restart();
  EXPECT_EQ(rest(), Rest::kFrozen);
  auto again = resumed(8);
  ASSERT_TRUE(again && again->status.ok == 1);
  EXPECT_EQ(World::shell(start.interface.str(), "echo here"), "here\n");
}

TEST_F(PausingTest, RefusesWhatDoesNotFit) {
  started();
  EXPECT_EQ(resumed(8)->status.word.str(), "not_paused");
  EXPECT_EQ(resumed(7)->status.ok, 1);  // a repetition
  EXPECT_THAT(paused(Memory::kKept, 'b'), HasSubstr("not here"));
  ASSERT_EQ(paused(Memory::kKept), "ok");
  EXPECT_EQ(resumed(6)->status.ok, 0);  // an older generation
  wire::StartRequest other = World::request(World::id('a'));
  other.generation = 8;
  other.build.set(kHostileBuild);
  client_->send(other, wire::Type::kResume);
  EXPECT_EQ(client_->receive<wire::StartReply>(wire::Type::kStartReply)->status.ok, 0);
  EXPECT_TRUE(frozen());
}

TEST_F(PausingTest, RestsOnItsDiskAndBootsAgain) {
  wire::StartReply start = started();
  std::string link = start.interface.str();
  World::shell(link, "echo kept >/root-file; echo mine >/etc/hostname; chown 1000 /root-file");
  std::string boot = World::shell(link, "cat /proc/sys/kernel/random/boot_id");
  EXPECT_EQ(boot.size(), 37u) << boot;
  EXPECT_NE(boot, sys::read_file("/proc/sys/kernel/random/boot_id").value_or(""));
  EXPECT_EQ(listed().kept_bytes, 0u);
  auto pause = World::pause_sandbox(*client_, World::id('a'), Memory::kLost);
  ASSERT_TRUE(pause);
  ASSERT_EQ(pause->status.ok, 1) << pause->status.message.str();
  struct stat image{};
  ASSERT_EQ(::stat(world_->path("data/disks/" + World::id('a') + ".img").c_str(), &image), 0);
  EXPECT_EQ(pause->kept_bytes, static_cast<std::uint64_t>(image.st_blocks) * 512);
  EXPECT_EQ(listed().kept_bytes, pause->kept_bytes);
  EXPECT_EQ(rest(), Rest::kStored);
  EXPECT_EQ(listed().alive, 1);
  // It has ended; whoever reaps it may come a little later.
  EXPECT_TRUE(soon([&] { return ::kill(static_cast<pid_t>(start.pid), 0) != 0; }));
  EXPECT_THAT(world_->leftovers(World::id('a')),
              testing::UnorderedElementsAre(world_->path("data/disks/" + World::id('a') + ".img"),
                                            world_->path("data/stored/" + World::id('a'))));
  EXPECT_THAT(paused(Memory::kKept), HasSubstr("memory_gone"));

  restart();
  EXPECT_EQ(rest(), Rest::kStored);
  auto again = resumed(8);
  ASSERT_TRUE(again);
  ASSERT_EQ(again->status.ok, 1) << again->status.message.str();
  EXPECT_NE(again->pid, start.pid);
  EXPECT_EQ(World::shell(again->interface.str(), "cat /root-file /etc/hostname; stat -c %u /root-file"),
            "kept\nmine\n1000\n");
  EXPECT_NE(World::shell(again->interface.str(), "cat /proc/sys/kernel/random/boot_id"), boot);
  EXPECT_EQ(listed().generation, 8u);
  EXPECT_EQ(rest(), Rest::kRuns);
  expect_end_without_leftovers();
}

TEST_F(PausingTest, FrozenOneCanStillBeStored) {
  started();
  ASSERT_EQ(paused(Memory::kKept), "ok");
  ASSERT_EQ(paused(Memory::kLost), "ok");
  EXPECT_EQ(rest(), Rest::kStored);
  expect_end_without_leftovers();
}

// A list waits for what works on a sandbox, and another may be booted from its disk meanwhile: it is in the
// list all the same. Control takes what is not in it for lost.
TEST_F(PausingTest, OneThatBootsIsAlwaysListedAndFound) {
  for (char letter : {'a', 'b'}) started(letter);
  for (std::uint64_t generation = 8; generation < 20; ++generation) {
    for (char letter : {'a', 'b'}) ASSERT_EQ(paused(Memory::kLost, letter), "ok") << world_->log();
    for (char letter : {'a', 'b'}) {
      wire::StartRequest request = World::request(World::id(letter));
      request.generation = generation;
      client_->send(request, wire::Type::kResume);
      if (letter == 'a') client_->send(wire::Empty{}, wire::Type::kList);
    }
    client_->send(wire::Empty{}, wire::Type::kList);
    for (int lists = 0, seen = 0; lists < 2;) {
      auto reply = client_->receive<wire::ListReply>(wire::Type::kListReply);
      ASSERT_TRUE(reply);
      if (reply->last == 0) ++seen;
      if (reply->last != 0 && ++lists == 2) EXPECT_EQ(seen, 4);
    }
    for (int i = 0; i < 2; ++i) {
      auto reply = client_->receive<wire::StartReply>(wire::Type::kStartReply);
      ASSERT_TRUE(reply);
      EXPECT_EQ(reply->status.ok, 1) << reply->status.message.str();
    }
  }
}

TEST_F(PausingTest, TornDiskIsRefusedAndKept) {
  started();
  ASSERT_EQ(paused(Memory::kLost), "ok");
  std::string image = world_->path("data/disks/" + World::id('a') + ".img");
  {
    sys::Fd fd = std::move(sys::open_file(image, O_RDWR).value());
    const char unclean[2] = {0, 0};
    ASSERT_EQ(::pwrite(fd.get(), unclean, 2, 1024 + 58), 2);
  }
  auto refused = resumed(8);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status.word.str(), "disk_torn");
  EXPECT_EQ(rest(), Rest::kStored);
  EXPECT_EQ(::access(image.c_str(), F_OK), 0);
  expect_end_without_leftovers();
}

// A file system with room for nothing, until `widen()`.
class Crowded {
 public:
  explicit Crowded(std::string path) : path_(std::move(path)) {
    EXPECT_EQ(::mount("none", path_.c_str(), "tmpfs", 0, "nr_inodes=1"), 0) << errno;
  }
  ~Crowded() { ::umount2(path_.c_str(), MNT_DETACH); }
  void widen() const {
    EXPECT_EQ(::mount("none", path_.c_str(), nullptr, MS_REMOUNT, "nr_inodes=100"), 0) << errno;
  }

 private:
  const std::string path_;
};

// What would end must be known on the disk first.
TEST_F(PausingTest, WithoutRoomForItsRecordItRunsOn) {
  world_->kill();
  Crowded stored(world_->path("data/stored"));
  start();
  std::string link = started().interface.str();
  EXPECT_THAT(paused(Memory::kLost), HasSubstr("No space left"));
  EXPECT_EQ(rest(), Rest::kRuns);
  EXPECT_EQ(World::shell(link, "echo here"), "here\n");
  stored.widen();
  EXPECT_EQ(paused(Memory::kLost), "ok");
  EXPECT_EQ(rest(), Rest::kStored);
  expect_end_without_leftovers();
  world_->kill();
}

// A resume that gets no slot, and a runner that dies while it puts the sandbox back to rest.
TEST_F(PausingTest, WhatIsPutBackToRestTakesNoSlotOfOthers) {
  started();
  ASSERT_EQ(paused(Memory::kLost), "ok");
  world_->kill();
  ASSERT_TRUE(world_->start("runner.store.after_record", {"--slot-count", "1"})) << world_->log();
  client_.emplace(world_->socket());
  wire::StartReply other = started('b');
  static_cast<void>(resumed(8));
  ASSERT_TRUE(world_->wait_death()) << "the point was never reached";
  std::vector<std::string> records = sys::list_directory(world_->path("run/sandboxes")).value_or({});
  EXPECT_THAT(records, testing::ElementsAre(World::id('b')));
  start();
  EXPECT_EQ(rest(), Rest::kStored);
  EXPECT_EQ(listed('b').slot, other.slot);
  EXPECT_EQ(listed('b').alive, 1);
  EXPECT_EQ(World::shell(other.interface.str(), "echo here"), "here\n");
}

// The runner dies at this point of a pause or a resume; the next one finishes it or repeats it.
struct Edge {
  const char* point;
  enum class Of { kFreeze, kThaw, kStore, kBoot } of;
};
constexpr Edge kEdges[] = {
    {"runner.pause.after_record", Edge::Of::kFreeze}, {"runner.pause.after_freeze", Edge::Of::kFreeze},
    {"runner.pause.before_reply", Edge::Of::kFreeze}, {"runner.resume.after_record", Edge::Of::kThaw},
    {"runner.resume.after_thaw", Edge::Of::kThaw},    {"runner.resume.before_reply", Edge::Of::kThaw},
    {"runner.store.after_record", Edge::Of::kStore},  {"runner.stop.after_kill", Edge::Of::kStore},
    {"runner.stop.after_cgroup", Edge::Of::kStore},   {"runner.stop.after_disk", Edge::Of::kStore},
    {"runner.stop.after_rules", Edge::Of::kStore},    {"runner.stop.after_record", Edge::Of::kStore},
    {"runner.start.after_slot", Edge::Of::kBoot},     {"runner.start.after_record", Edge::Of::kBoot},
    {"runner.start.after_disk", Edge::Of::kBoot},     {"runner.start.after_clone", Edge::Of::kBoot},
    {"runner.start.after_complete", Edge::Of::kBoot},
};

class PauseFault : public PausingTest, public testing::WithParamInterface<Edge> {};

TEST_P(PauseFault, LosesNothing) {
  Edge::Of of = GetParam().of;
  bool on_disk = of == Edge::Of::kStore || of == Edge::Of::kBoot;
  World::shell(started().interface.str(), "echo kept >/file; sync");
  Memory memory = on_disk ? Memory::kLost : Memory::kKept;
  bool resumes = of == Edge::Of::kThaw || of == Edge::Of::kBoot;
  if (resumes) ASSERT_EQ(paused(memory), "ok");
  restart(GetParam().point);
  if (resumes) {
    static_cast<void>(resumed(8));
  } else {
    static_cast<void>(paused(memory));
  }
  ASSERT_TRUE(world_->wait_death()) << "the point was never reached";
  start();

  ASSERT_EQ(listed().alive, 1) << world_->log();
  if (!resumes) EXPECT_EQ(paused(memory), "ok");
  auto again = resumed(9);
  ASSERT_TRUE(again);
  // Resumed already, by the one that died: that is the truth too.
  if (again->status.ok == 0) EXPECT_EQ(again->status.word.str(), "not_paused");
  EXPECT_EQ(rest(), Rest::kRuns);
  EXPECT_FALSE(frozen());
  EXPECT_EQ(World::shell(listed().interface.str(), "cat /file"), "kept\n");
  expect_end_without_leftovers();
  EXPECT_EQ(WEXITSTATUS(world_->terminate()), 0);
}

INSTANTIATE_TEST_SUITE_P(Edges, PauseFault, testing::ValuesIn(kEdges), [](const auto& info) {
  std::string name = std::to_string(info.index) + "_" + info.param.point;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace atl::runner_test
