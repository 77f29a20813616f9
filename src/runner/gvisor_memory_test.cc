// SPDX-License-Identifier: Apache-2.0
//
// Memory of the gvisor tier in files: what a pause keeps there and what it leaves where it is, what goes on
// from it, and what a runner finds that comes back in the middle.
#include <fcntl.h>
#include <gmock/gmock.h>

#include "runner/stored_memory.h"
#include "support/gvisor_fixture.h"

namespace atl::runner_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Memory = World::Memory;
using wire::Rest;

constexpr char kSnapshot[] = "s0000000000000000001";

class GvisorMemoryTest : public GvisorTest {
 protected:
  // Brings 'a' to rest; how it rests then.
  wire::PauseReply paused(Memory memory = Memory::kKept) {
    auto reply = World::pause_sandbox(*client_, World::id('a'), memory);
    if (reply && reply->status.ok == 1) return *reply;
    ADD_FAILURE() << (reply ? reply->status.message.str() : "no reply") << "\n" << why();
    return reply.value_or(wire::PauseReply{});
  }
  std::optional<wire::StartReply> resume(std::uint64_t generation) {
    wire::StartRequest wanted = request('a');
    wanted.generation = generation;
    client_->send(wanted, wire::Type::kResume);
    return client_->receive<wire::StartReply>(wire::Type::kStartReply);
  }
  // What came of a copy of 'a'.
  wire::Status snapshot(bool memory) {
    wire::SnapshotRequest wanted{};
    wanted.sandbox.set(World::id('a'));
    wanted.snapshot.set(kSnapshot);
    wanted.memory = memory ? 1 : 0;
    client_->send(wanted, wire::Type::kSnapshot);
    auto taken = client_->receive<wire::SnapshotReply>(wire::Type::kSnapshotReply);
    EXPECT_TRUE(taken);
    return taken ? taken->status : wire::Status{};
  }
  // Its link when it goes on.
  std::string resumed(std::uint64_t generation) {
    auto reply = resume(generation);
    if (reply && reply->status.ok == 1) return reply->interface.str();
    ADD_FAILURE() << (reply ? reply->status.message.str() : "no reply") << "\n" << why();
    return "";
  }
  Rest rest() {
    auto all = World::list(*client_);
    auto found = all.find(World::id('a'));
    return found == all.end() ? Rest::kRuns : static_cast<Rest>(found->second.rest);
  }
  std::string why() const {
    return world_->log() + sys::read_file(world_->path("run/gvisor.log")).value_or("").substr(0, 400);
  }
  // Starts a process that counts in /tmp/n; its pid inside.
  static std::string counter(const std::string& link) {
    World::shell(
        link,
        "(cd /tmp; echo 0 >n; while true; do echo $(($(cat n)+1)) >n.new; mv n.new n; done) >/dev/null "
        "2>&1 </dev/null & echo $! >/tmp/pid");
    return World::shell(link, "cat /tmp/pid");
  }
  // It is the same process, and it goes on counting.
  static void expect_counting(const std::string& link, const std::string& pid) {
    EXPECT_EQ(World::shell(link, "cat /tmp/pid"), pid);
    EXPECT_EQ(World::shell(link, "kill -0 $(cat /tmp/pid) && echo lives"), "lives\n");
    std::string before = World::shell(link, "cat /tmp/n");
    EXPECT_TRUE(soon([&] { return World::shell(link, "cat /tmp/n") != before; }));
  }
  void expect_end_without_leftovers() {
    auto stopped = World::stop_sandbox(*client_, World::id('a'));
    ASSERT_TRUE(stopped);
    EXPECT_EQ(stopped->status.ok, 1) << stopped->status.message.str();
    EXPECT_TRUE(gone('a')) << testing::PrintToString(world_->leftovers(World::id('a')));
    EXPECT_TRUE(world_->leftovers(World::id('a') + ".visit").empty());
    EXPECT_THAT(sys::list_directory(world_->path("data/memory")).value_or({}), IsEmpty());
  }
};

TEST_F(GvisorMemoryTest, GoesOnFromFilesInAnySlot) {
  start();
  EXPECT_TRUE(hello().memory_tiers & 1u << static_cast<unsigned>(model::Tier::kGvisor));
  EXPECT_TRUE(hello().quiet_tiers & 1u << static_cast<unsigned>(model::Tier::kGvisor));
  wire::StartReply first = started(request('a'));
  std::string link = first.interface.str(), pid = counter(link);
  for (std::uint64_t generation : {8u, 9u, 10u}) {
    EXPECT_EQ(paused().rest, Rest::kSaved) << why();
    // It has ended; whoever reaps it may come a little later.
    EXPECT_TRUE(soon([&] { return ::kill(static_cast<pid_t>(first.pid), 0) != 0; }));
    EXPECT_NE(::access(world_->path("run/sandboxes/" + World::id('a')).c_str(), F_OK), 0) << "it has no slot";
    EXPECT_EQ(rest(), Rest::kSaved);
    EXPECT_EQ(paused().rest, Rest::kSaved);  // again: it is so already
    link = resumed(generation);
    expect_counting(link, pid);
    EXPECT_EQ(World::shell(link, "hostname; df / | grep -c none"), World::id('a') + "\n1\n");
  }
  expect_end_without_leftovers();
}

TEST_F(GvisorMemoryTest, WhatTheDiskHoldsOfItIsGoneAgain) {
  start();
  std::string link = this->link('a');
  auto used = [&] { return World::shell(link, "df -k / | awk 'END { print $3 }'"); };
  World::shell(link, "head -c 8000000 /dev/urandom >/dev/shm/x");
  std::string before = used();
  ASSERT_EQ(paused().rest, Rest::kSaved) << why();
  link = resumed(8);
  EXPECT_EQ(used(), before);
  EXPECT_EQ(World::shell(link, "wc -c </dev/shm/x"), "8000000\n");
}

TEST_F(GvisorMemoryTest, AConnectionKeepsItInMemoryUntilItIsClosed) {
  start();
  std::string link = this->link('a'), pid = counter(link);
  {
    sys::Fd open = World::connect(link);
    ASSERT_TRUE(open);
    wire::PauseReply reply = paused();
    EXPECT_EQ(reply.rest, Rest::kFrozen);
    EXPECT_EQ(reply.obstacle.str(), "outside_connections");
    EXPECT_THAT(reply.why.str(), HasSubstr("1 of its connections"));
    wire::PauseReply again = paused();
    EXPECT_EQ(again.rest, Rest::kFrozen);
    EXPECT_EQ(again.obstacle.str(), "outside_connections");
    EXPECT_EQ(resumed(8), link) << "it kept its slot";
  }
  expect_counting(link, pid);
  wire::PauseReply closed = paused();
  EXPECT_EQ(closed.rest, Rest::kSaved);
  EXPECT_EQ(closed.obstacle.str(), "");
  EXPECT_GT(closed.kept_bytes, 1u << 20) << "its disk, and its memory in files";
  expect_counting(resumed(9), pid);
}

TEST_F(GvisorMemoryTest, AConnectionThatOpensAtTheLastMomentIsSeen) {
  start();
  std::string link = this->link('a'), pid = counter(link);
  // A process that opens one after another: at whatever moment it stands still, it may have one.
  World::shell(
      link,
      fmt::format("(while true; do nc 9.9.9.9 {} </dev/null; done) >/dev/null 2>&1 </dev/null &", kSinkPort));
  for (std::uint64_t generation : {8u, 9u, 10u}) {
    wire::PauseReply reply = paused();
    if (reply.rest == Rest::kFrozen)
      EXPECT_EQ(reply.obstacle.str(), "outside_connections") << reply.why.str();
    link = resumed(generation);
    expect_counting(link, pid);
  }
}

TEST_F(GvisorMemoryTest, AFileWithoutANameKeepsItInMemory) {
  start();
  std::string link = this->link('a'), pid = counter(link);
  World::shell(link,
               "(exec 5<>/tmp/x; rm /tmp/x; sleep 1000) >/dev/null 2>&1 </dev/null & echo $! >/tmp/holder");
  wire::PauseReply reply = paused();
  EXPECT_EQ(reply.rest, Rest::kFrozen);
  EXPECT_EQ(reply.obstacle.str(), "nameless_file");
  link = resumed(8);
  expect_counting(link, pid);
  World::shell(link, "kill $(cat /tmp/holder) $(pgrep sleep)");
  EXPECT_EQ(paused().rest, Rest::kSaved) << why();
  expect_counting(resumed(9), pid);
}

TEST_F(GvisorMemoryTest, AFullDiskKeepsItInMemory) {
  start();
  std::string link = this->link('a'), pid = counter(link);
  World::shell(link, "dd if=/dev/zero of=/fill bs=1M 2>/dev/null; true");
  wire::PauseReply reply = paused();
  EXPECT_EQ(reply.rest, Rest::kFrozen);
  EXPECT_EQ(reply.obstacle.str(), "disk_full") << reply.why.str();
  link = resumed(8);
  expect_counting(link, pid);
  World::shell(link, "rm /fill");
  EXPECT_EQ(paused().rest, Rest::kSaved) << why();
}

TEST_F(GvisorMemoryTest, StaysWhereItIsWhereThatIsAsked) {
  start();
  std::string link = this->link('a');
  wire::PauseRequest wanted{};
  wanted.sandbox.set(World::id('a'));
  wanted.memory = wanted.in_place = 1;
  client_->send(wanted, wire::Type::kPause);
  auto reply = client_->receive<wire::PauseReply>(wire::Type::kPauseReply);
  ASSERT_TRUE(reply && reply->status.ok == 1);
  EXPECT_EQ(reply->rest, Rest::kFrozen);
  EXPECT_EQ(snapshot(true).word.str(), "memory_in_place");
  EXPECT_EQ(snapshot(false).ok, 1);
  EXPECT_EQ(resumed(8), link);
}

TEST_F(GvisorMemoryTest, OutlivesTheRunnerAndIsRefusedWhenItIsDamaged) {
  start();
  std::string pid = counter(link('a'));
  ASSERT_EQ(paused().rest, Rest::kSaved) << why();
  std::string file = world_->path("data/memory/" + World::id('a') + "/checkpoint.img");
  std::string bytes = sys::read_file(file, 64 << 20).value_or("");
  ASSERT_GT(bytes.size(), 1000u);
  ::chmod(file.c_str(), 0600);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(sys::write_file(file, bytes).ok());
  world_->kill();
  start();
  ASSERT_EQ(rest(), Rest::kSaved);
  auto refused = resume(8);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status.word.str(), "snapshot_corrupt");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(sys::write_file(file, bytes).ok());
  ::chmod(file.c_str(), 0444);
  expect_counting(resumed(8), pid);
}

TEST_F(GvisorMemoryTest, OfAnotherRunscItIsRefused) {
  start();
  link('a');
  ASSERT_EQ(paused().rest, Rest::kSaved) << why();
  world_->kill();
  // The same program in other bytes.
  std::string copy = world_->path("runsc");
  std::string bytes = sys::read_file(World::runsc(), 256 << 20).value_or("") + "\n";
  ASSERT_TRUE(sys::replace_file(copy, bytes, 0755).ok());
  start(copy);
  auto refused = resume(8);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status.word.str(), "snapshot_mismatch") << refused->status.message.str();
  EXPECT_EQ(paused(Memory::kLost).rest, Rest::kStored);
  EXPECT_NE(resumed(9), "");
}

TEST_F(GvisorMemoryTest, ChildrenGoOnFromOneMomentAndAreTheirOwn) {
  start();
  std::string link = this->link('a'), pid = counter(link);
  World::shell(link, "echo parent >/dev/shm/who; echo 7 >/kept");
  auto taken = snapshot(true);
  ASSERT_EQ(taken.ok, 1) << taken.message.str() << why();
  expect_counting(link, pid);  // it goes on
  std::map<char, std::string> children;
  for (char letter : {'b', 'c'}) {
    wire::StartRequest child = request(letter);
    child.snapshot.set(kSnapshot);
    child.memory = 1;
    children[letter] = started(child).interface.str();
  }
  for (auto& [letter, its] : children) {
    expect_counting(its, pid);
    EXPECT_EQ(World::shell(its, "cat /dev/shm/who /kept /etc/hostname"),
              "parent\n7\n" + World::id(letter) + "\n");
    World::shell(its, fmt::format("echo {} >/dev/shm/who; echo {} >/kept", letter, letter));
  }
  EXPECT_EQ(World::shell(link, "cat /dev/shm/who /kept"), "parent\n7\n");
  EXPECT_EQ(World::shell(children['b'], "cat /dev/shm/who /kept"), "b\nb\n");
  EXPECT_NE(World::shell(children['b'], "cat /etc/machine-id"),
            World::shell(children['c'], "cat /etc/machine-id"));
  for (char letter : {'b', 'c'}) EXPECT_EQ(World::stop_sandbox(*client_, World::id(letter))->status.ok, 1);
  expect_end_without_leftovers();
}

TEST_F(GvisorMemoryTest, ASnapshotIsRefusedWhileSomebodyIsConnected) {
  start();
  std::string link = this->link('a'), pid = counter(link);
  sys::Fd open = World::connect(link);
  ASSERT_TRUE(open);
  auto refused = snapshot(true);
  EXPECT_EQ(refused.word.str(), "outside_connections") << refused.message.str();
  EXPECT_THAT(sys::list_directory(world_->path("data/snapshots")).value_or({}), IsEmpty());
  expect_counting(link, pid);
}

class GvisorSaveFaultTest : public GvisorMemoryTest, public testing::WithParamInterface<const char*> {};

// Whatever step of a pause the runner dies in: its processes are there, running or in files, and another
// pause and resume work.
TEST_P(GvisorSaveFaultTest, LosesNothing) {
  start(World::runsc(), GetParam());
  std::string pid = counter(link('a'));
  World::pause_sandbox(*client_, World::id('a'), Memory::kKept);
  ASSERT_TRUE(world_->wait_death()) << "the point was never reached";
  start();
  std::uint64_t generation = 8;
  if (rest() == Rest::kFrozen)
    expect_counting(resumed(generation++), pid);  // it outlived its launcher a moment
  EXPECT_EQ(paused().rest, Rest::kSaved) << why();
  expect_counting(resumed(generation), pid);
  expect_end_without_leftovers();
}
INSTANTIATE_TEST_SUITE_P(Points, GvisorSaveFaultTest,
                         testing::Values("runner.save.after_record", "launcher.after_visit",
                                         "runner.save.still", "runner.save.after_files",
                                         "runner.memory.before_manifest", "runner.save.after_manifest",
                                         "runner.save.after_keep", "runner.store.after_record",
                                         "runner.stop.after_disk"));

// The memory is given up: whether the runner dies before or after, it rests on its disk.
TEST_F(GvisorMemoryTest, RestsOnItsDiskWhereTheRunnerDiesWhileItsMemoryIsForgotten) {
  start();
  World::shell(link('a'), "echo text >/kept");
  ASSERT_EQ(paused().rest, Rest::kSaved) << why();
  world_->kill();
  start(World::runsc(), "runner.forget.after_record");
  World::pause_sandbox(*client_, World::id('a'), Memory::kLost);
  ASSERT_TRUE(world_->wait_death()) << "the point was never reached";
  start();
  EXPECT_EQ(rest(), Rest::kStored);
  EXPECT_EQ(World::shell(resumed(8), "cat /kept"), "text\n");
  expect_end_without_leftovers();
}

// What runsc cannot read shows only after it was let go, when nobody can tell what has run: its memory is not
// used a second time.
TEST_F(GvisorMemoryTest, AResumeThatFailsAfterItBeganLeavesTheDisk) {
  start();
  World::shell(link('a'), "echo text >/kept");
  ASSERT_EQ(paused().rest, Rest::kSaved) << why();
  world_->kill();
  std::string folder = world_->path("data/memory/" + World::id('a'));
  std::string manifest = sys::read_file(folder + "/manifest").value();
  runner::MemoryManifest sealed;
  ASSERT_EQ(manifest.size(), sizeof sealed);
  std::memcpy(&sealed, manifest.data(), sizeof sealed);
  std::string state = folder + "/checkpoint.img";
  std::filesystem::resize_file(state, std::filesystem::file_size(state) / 2);
  ASSERT_TRUE(runner::MemoryChecks().seal(folder, sealed).ok());
  start();
  auto refused = resume(8);
  ASSERT_TRUE(refused);
  EXPECT_THAT(refused->status.message.str(), HasSubstr("did not go on from its memory"));
  EXPECT_EQ(rest(), Rest::kStored);
  EXPECT_THAT(sys::list_directory(world_->path("data/memory")).value_or({"?"}), IsEmpty());
  wire::StartRequest with_memory = request('a');
  with_memory.generation = 8;
  with_memory.memory = 1;
  client_->send(with_memory, wire::Type::kResume);
  auto gone = client_->receive<wire::StartReply>(wire::Type::kStartReply);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->status.word.str(), "memory_gone");
  EXPECT_EQ(World::shell(resumed(9), "cat /kept"), "text\n");
  expect_end_without_leftovers();
}

class GvisorRestoreFaultTest : public GvisorMemoryTest, public testing::WithParamInterface<const char*> {};

TEST_P(GvisorRestoreFaultTest, LosesNothing) {
  start();
  std::string pid = counter(link('a'));
  ASSERT_EQ(paused().rest, Rest::kSaved) << why();
  world_->kill();
  start(World::runsc(), GetParam());
  resume(8);
  ASSERT_TRUE(world_->wait_death()) << "the point was never reached";
  start();
  expect_counting(resumed(8), pid);
  expect_end_without_leftovers();
}
INSTANTIATE_TEST_SUITE_P(Points, GvisorRestoreFaultTest,
                         testing::Values("runner.start.after_rules", "runner.start.after_complete",
                                         "runner.restore.after_spent", "runner.restore.after_resume"));

}  // namespace
}  // namespace atl::runner_test
