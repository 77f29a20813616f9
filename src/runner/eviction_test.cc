// SPDX-License-Identifier: Apache-2.0
//
// Memory of sandboxes at rest that goes to the host's swap and comes back. With the real kernel, and a swap
// file of our own where the host has no swap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/swap.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "runner/evictor.h"
#include "support/runner_fixture.h"
#include "sys/files.h"

namespace atl::runner_test {
namespace {

using testing::HasSubstr;
using Memory = World::Memory;

constexpr std::uint64_t kHeld = 24 << 20;

// Swap for the length of a test; `why` says what stands against it.
class Swap {
 public:
  Swap() {
    if (runner::has_swap(sys::read_file("/proc/swaps").value_or(""))) return;
    for (const char* folder : {"/var/tmp", "/tmp"}) {
      path_ = fmt::format("{}/atoll-swap-{}", folder, ::getpid());
      std::string make = fmt::format(
          "umask 077; dd if=/dev/zero of={0} bs=1M count=128 status=none && mkswap -q {0} 2>/dev/null",
          path_);
      if (std::system(make.c_str()) == 0 && ::swapon(path_.c_str(), 0) == 0) return;
      why = fmt::format("swapon {}: {}", path_, std::strerror(errno));
      ::unlink(path_.c_str());
      path_.clear();
    }
  }
  Swap(const Swap&) = delete;
  Swap& operator=(const Swap&) = delete;
  ~Swap() {
    if (path_.empty()) return;
    ::swapoff(path_.c_str());
    ::unlink(path_.c_str());
  }
  std::string why;

 private:
  std::string path_;
};

class EvictionTest : public RunnerFixture {
 protected:
  void SetUp() override {
    RunnerFixture::SetUp();
    if (!world_) return;
    swap_ = std::make_unique<Swap>();
    if (!swap_->why.empty()) GTEST_SKIP() << "needs swap: " << swap_->why;
    begin();
  }
  void TearDown() override {
    world_.reset();  // before its swap
  }
  void begin(const std::string& fault = {}) {
    ASSERT_TRUE(world_->start(fault, {"--evict-paused"})) << world_->log();
    client_.emplace(world_->socket());
  }
  // A sandbox that holds memory that is on no disk.
  void hold_memory() {
    auto reply = World::start_sandbox(*client_, World::id('a'));
    ASSERT_TRUE(reply && reply->status.ok == 1) << world_->log();
    link_ = reply->interface.str();
    World::shell(link_, fmt::format("head -c {} /dev/urandom >/dev/shm/held", kHeld));
    sum_ = World::shell(link_, "md5sum /dev/shm/held");
    ASSERT_THAT(sum_, HasSubstr("held"));
    ASSERT_GT(used(), kHeld);
  }
  // The path of a file of the sandbox's group; "" where no hierarchy has it.
  std::string file(const std::string& name) {
    for (const std::string& top : World::hierarchies()) {
      std::string path = fmt::format("{}/{}/{}/{}", top, world_->name(), World::id('a'), name);
      if (::access(path.c_str(), R_OK) == 0) return path;
    }
    return {};
  }
  std::uint64_t number(const std::string& version1, const std::string& version2) {
    std::string path = file(version1);
    std::string text = sys::read_file(path.empty() ? file(version2) : path).value_or("");
    return text.starts_with("max") ? UINT64_MAX : std::strtoull(text.c_str(), nullptr, 10);
  }
  std::uint64_t used() { return number("memory.usage_in_bytes", "memory.current"); }
  std::uint64_t limit() { return number("memory.limit_in_bytes", "memory.max"); }
  // On version 1 that of memory and swap together.
  std::uint64_t swap_limit() { return number("memory.memsw.limit_in_bytes", "memory.swap.max"); }
  std::string pause() {
    auto reply = World::pause_sandbox(*client_, World::id('a'), Memory::kKept);
    return reply ? reply->status.message.str() : "no reply";
  }
  // A disk that is busy may make it give up; a pause of what is paused makes it try again.
  bool evicted() {
    return soon([&] {
      bool gone = used() < kHeld / 4;
      if (!gone) pause();
      return gone;
    });
  }
  std::string resume(std::uint64_t generation) {
    auto reply = World::resume_sandbox(*client_, World::id('a'), generation);
    return reply ? reply->status.message.str() : "no reply";
  }

  std::unique_ptr<Swap> swap_;
  std::string link_, sum_;
};

TEST_F(EvictionTest, MemoryGoesToSwapAndComesBack) {
  hold_memory();
  std::uint64_t limit_before = limit(), swap_before = swap_limit();
  ASSERT_EQ(pause(), "");
  EXPECT_TRUE(evicted()) << used() << "\n" << world_->log();
  EXPECT_TRUE(soon([&] { return limit() == limit_before && swap_limit() == swap_before; }))
      << limit() << " " << swap_limit();
  ASSERT_EQ(resume(8), "");
  EXPECT_EQ(World::shell(link_, "md5sum /dev/shm/held"), sum_);
  EXPECT_GT(used(), kHeld);
}

// Whenever it is woken, it has all of its memory and its limits.
TEST_F(EvictionTest, IsBrokenOffByAResume) {
  hold_memory();
  std::uint64_t limit_before = limit(), swap_before = swap_limit();
  for (std::uint64_t round = 8; round < 20; ++round) {
    ASSERT_EQ(pause(), "");
    ASSERT_EQ(resume(round), "");
    ASSERT_EQ(limit(), limit_before);
    ASSERT_EQ(swap_limit(), swap_before);
  }
  EXPECT_EQ(World::shell(link_, "md5sum /dev/shm/held"), sum_);
}

// What a runner leaves that dies between two steps.
TEST_F(EvictionTest, LimitsThatADeadRunnerLeftAreMadeWhole) {
  hold_memory();
  std::uint64_t limit_before = limit(), swap_before = swap_limit();
  ASSERT_EQ(pause(), "");
  ASSERT_TRUE(evicted()) << used();
  world_->kill();
  bool version1 = !file("memory.limit_in_bytes").empty();
  std::string changed = version1 ? file("memory.limit_in_bytes") : file("memory.swap.max");
  ASSERT_TRUE(sys::write_file(changed, version1 ? fmt::format("{}", kHeld / 2) : "max").ok());
  ASSERT_TRUE(world_->start()) << world_->log();  // one that evicts nothing
  client_.emplace(world_->socket());
  EXPECT_EQ(limit(), limit_before);
  EXPECT_EQ(swap_limit(), swap_before);
  ASSERT_EQ(resume(8), "");
  EXPECT_EQ(World::shell(link_, "md5sum /dev/shm/held"), sum_);
}

TEST_F(EvictionTest, OneThatIsStoppedMeanwhileLeavesNothing) {
  hold_memory();
  ASSERT_EQ(pause(), "");
  auto stopped = World::stop_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->status.ok, 1) << stopped->status.message.str();
  EXPECT_TRUE(soon([&] { return world_->leftovers(World::id('a')).empty(); }));
}

// Groups that hold memory, and who had a step when.
class Groups {
 public:
  runner::Evictor::Means means(Millis rest) {
    return {[this](const std::string& name, std::uint64_t bytes) { return step(name, bytes); },
            [this](const std::string& name) { return end(name); }, rest};
  }
  void hold(const std::string& name, std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    held_[name] = bytes;
  }
  // Steps of `name` do not end until release().
  void block(const std::string& name) {
    std::lock_guard lock(mutex_);
    blocked_ = name;
  }
  void release() {
    block("");
    changed_.notify_all();
  }
  int ends(const std::string& name) {
    std::lock_guard lock(mutex_);
    return ended[name];
  }
  bool wait_for(const std::function<bool()>& state) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), state);
  }
  std::vector<std::string> steps;
  std::map<std::string, int> ended;

 private:
  Result<std::uint64_t> step(const std::string& name, std::uint64_t bytes) {
    std::unique_lock lock(mutex_);
    steps.push_back(name);
    changed_.notify_all();
    changed_.wait(lock, [&] { return blocked_ != name; });
    std::uint64_t taken = std::min(bytes, held_[name]);
    held_[name] -= taken;
    return taken;
  }
  Result<void> end(const std::string& name) {
    std::lock_guard lock(mutex_);
    ++ended[name];
    changed_.notify_all();
    return success();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string blocked_;
  std::map<std::string, std::uint64_t> held_;
};

constexpr int kSleepers = 50;
std::string sleeper(int number) { return "i" + std::to_string(number); }

// However much one of them holds, and however long the kernel takes to let it go.
TEST(Evictor, EachHasItsTurnWhileOthersRest) {
  Groups groups;
  groups.block(sleeper(0));
  runner::Evictor evictor(groups.means(std::chrono::hours(1)));
  for (int i = 0; i < kSleepers; ++i) {
    groups.hold(sleeper(i), 64 << 20);
    evictor.add(sleeper(i));
  }
  groups.release();
  // Four steps each that take something, and one that finds nothing.
  ASSERT_TRUE(groups.wait_for([&] { return groups.steps.size() == 5 * kSleepers; })) << groups.steps.size();
  for (std::size_t round = 0; round < 5; ++round) {
    auto begin = groups.steps.begin() + static_cast<std::ptrdiff_t>(round * kSleepers);
    EXPECT_EQ(std::set<std::string>(begin, begin + kSleepers).size(), kSleepers) << round;
  }
}

TEST(Evictor, EndsWithWholeLimitsWhereNothingMoreGoes) {
  Groups groups;
  runner::Evictor evictor(groups.means(Millis(0)));
  for (int i = 0; i < kSleepers; ++i) evictor.add(sleeper(i));
  EXPECT_TRUE(groups.wait_for([&] { return groups.ended.size() == kSleepers; })) << groups.ended.size();
}

// Whether a thread of this process waits in the kernel: the field behind the name, which ends with the last
// bracket (proc(5), /proc/PID/stat).
bool sleeps(pid_t thread) {
  std::string stat = sys::read_file(fmt::format("/proc/self/task/{}/stat", thread)).value_or("");
  std::size_t name = stat.rfind(") ");
  return thread != 0 && name != std::string::npos && stat.compare(name + 2, 1, "S") == 0;
}

TEST(Evictor, AWakeWaitsForAStepOfItsOwnAndForNoOther) {
  Groups groups;
  runner::Evictor evictor(groups.means(std::chrono::hours(1)));
  groups.block("slow");
  groups.hold("slow", 64 << 20);
  evictor.add("slow");
  ASSERT_TRUE(groups.wait_for([&] { return !groups.steps.empty(); }));
  evictor.add("other");
  evictor.wake("other");  // or this test hangs
  EXPECT_TRUE(groups.wait_for([&] { return groups.ended["other"] == 1; }));
  std::atomic<pid_t> waker{0};
  std::atomic<bool> woken{false};
  std::thread waking([&] {
    waker = ::gettid();
    evictor.wake("slow");
    woken = true;
  });
  // The step goes on only when the wake has come to where it waits, or has not waited.
  EXPECT_TRUE(soon([&] { return woken || sleeps(waker); }));
  EXPECT_FALSE(woken) << "it did not wait for the step";
  EXPECT_EQ(groups.ends("slow"), 0) << "its limits were touched in the middle of a step";
  groups.release();
  waking.join();
  EXPECT_EQ(groups.ends("slow"), 1);
  std::size_t steps = 0;
  EXPECT_TRUE(groups.wait_for([&] {
    steps = groups.steps.size();
    return groups.ended["slow"] >= 1;
  }));
  // Nothing is taken from it any more.
  evictor.add("next");
  ASSERT_TRUE(groups.wait_for([&] { return groups.steps.size() > steps; }));
  EXPECT_EQ(groups.steps[steps], "next");
}

TEST(Evictor, LimitsAreWholeWhenItGoes) {
  Groups groups;
  {
    runner::Evictor evictor(groups.means(std::chrono::hours(1)));
    evictor.add("one");
    ASSERT_TRUE(groups.wait_for([&] { return !groups.steps.empty(); }));
  }
  EXPECT_EQ(groups.ended["one"], 1);
}

TEST(Evictor, KnowsAHostWithoutSwap) {
  EXPECT_FALSE(runner::has_swap(""));
  EXPECT_FALSE(runner::has_swap("Filename\tType\tSize\tUsed\tPriority\n"));
  EXPECT_TRUE(runner::has_swap("Filename\tType\tSize\tUsed\tPriority\n/dev/zram0 partition 262140 0 100\n"));
}

TEST_F(RunnerFixture, IsNotStartedToEvictWhereThereIsNoSwap) {
  if (runner::has_swap(sys::read_file("/proc/swaps").value_or(""))) GTEST_SKIP() << "this host has swap";
  EXPECT_FALSE(world_->start({}, {"--evict-paused"}));
  EXPECT_THAT(world_->log(), HasSubstr("this host has no swap"));
}

}  // namespace
}  // namespace atl::runner_test
