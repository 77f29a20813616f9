// SPDX-License-Identifier: Apache-2.0
//
// The runner is killed at each of its named crash points; the next one must find nothing lost and leave
// nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/runner_fixture.h"

namespace atl::runner_test {
namespace {

using testing::IsEmpty;

struct Point {
  const char* name;
  bool survives;  // a sandbox that was started before the crash is still there afterwards
};

// In the order in which a start, a change and a stop pass them.
constexpr Point kStartPoints[] = {
    {"runner.start.after_slot", false},    {"runner.start.after_record", false},
    {"runner.start.after_rules", false},   {"runner.start.after_disk", false},
    {"runner.start.after_cgroup", false},  {"launcher.after_clone", false},
    {"launcher.after_maps", false},        {"launcher.before_answer", false},
    {"runner.start.after_clone", false},   {"runner.start.after_exec", false},
    {"runner.start.after_complete", true}, {"runner.start.before_reply", true},
};
constexpr Point kStopPoints[] = {
    {"runner.stop.after_kill", true},    {"runner.stop.after_cgroup", true},
    {"runner.stop.after_disk", true},    {"runner.stop.after_rules", true},
    {"runner.stop.after_record", false}, {"runner.stop.before_reply", false},
};
constexpr Point kNetworkPoints[] = {{"runner.network.after_record", true},
                                    {"runner.network.after_rules", true}};

class FaultTest : public RunnerFixture, public testing::WithParamInterface<Point> {
 protected:
  // After a crash: a fresh runner, what it knows, and an end without leftovers.
  void recover(bool survives) {
    ASSERT_TRUE(world_->wait_death()) << "the point was never reached";
    start();
    auto known = World::list(*client_);
    EXPECT_EQ(known.contains(World::id('a')), survives);
    auto stopped = World::stop_sandbox(*client_, World::id('a'));
    ASSERT_TRUE(stopped);
    EXPECT_EQ(stopped->status.ok, survives ? 1 : 0) << stopped->status.message.str();
    EXPECT_TRUE(soon([&] { return world_->leftovers(World::id('a')).empty(); }))
        << testing::PrintToString(world_->leftovers(World::id('a')));
    // And it works: the same id can be used again.
    auto again = World::start_sandbox(*client_, World::id('a'));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->status.ok, 1) << again->status.message.str();
    EXPECT_EQ(World::shell(again->interface.str(), "echo here"), "here\n");
    World::stop_sandbox(*client_, World::id('a'));
    EXPECT_EQ(WEXITSTATUS(world_->terminate()), 0);
    EXPECT_TRUE(soon([] { return World::links().empty(); }));
  }
};

class StartFault : public FaultTest {};
TEST_P(StartFault, LeavesNothing) {
  start(GetParam().name);
  client_->send(World::request(World::id('a')), wire::Type::kStart);
  recover(GetParam().survives);
}

class StopFault : public FaultTest {};
TEST_P(StopFault, IsFinishedByTheNext) {
  start(GetParam().name);
  auto reply = World::start_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(reply && reply->status.ok == 1);
  wire::SandboxRef ref{};
  ref.sandbox.set(World::id('a'));
  client_->send(ref, wire::Type::kStop);
  recover(GetParam().survives);
}

class NetworkFault : public FaultTest {};
TEST_P(NetworkFault, LeavesTheNewRulesInForce) {
  start(GetParam().name);
  auto reply = World::start_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(reply && reply->status.ok == 1);
  wire::NetworkRequest request{};
  request.sandbox.set(World::id('a'));  // internet = 0, no rules: closed
  client_->send(request, wire::Type::kNetwork);
  ASSERT_TRUE(world_->wait_death());
  start();
  std::string heard =
      World::shell(reply->interface.str(), fmt::format("echo | nc -w 2 9.9.9.9 {}", kSinkPort));
  EXPECT_EQ(heard.find("internet"), std::string::npos) << heard;
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('a'))->status.ok, 1);
}

// A runner that dies while it makes a pool or takes over leaves a state that the next can take over.
class QuietFault : public FaultTest {};
TEST_P(QuietFault, IsTakenOver) {
  start();
  auto reply = World::start_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(reply && reply->status.ok == 1);
  world_->kill();
  // Something to sweep: a group and a disk of nobody.
  for (const std::string& top : World::hierarchies()) {
    std::string groups = top + "/" + world_->name();  // on some hosts a hierarchy is not needed
    if (std::filesystem::exists(groups)) std::filesystem::create_directory(groups + "/" + World::id('z'));
  }
  std::ofstream(world_->path("data/disks/" + World::id('z') + ".img")) << "x";
  static_cast<void>(world_->start(GetParam().name));
  ASSERT_TRUE(world_->wait_death()) << "the point was never reached";
  start();
  EXPECT_EQ(World::list(*client_).at(World::id('a')).alive, 1);
  EXPECT_EQ(World::shell(reply->interface.str(), "echo here"), "here\n");
  EXPECT_TRUE(soon([&] { return world_->stray_helpers().empty(); }));
  EXPECT_THAT(world_->leftovers(World::id('z')), IsEmpty());
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('a'))->status.ok, 1);
}
constexpr Point kQuietPoints[] = {{"runner.sweep.after_sandbox", true}, {"runner.sweep.after_group", true},
                                  {"runner.sweep.after_rules", true},   {"runner.sweep.after_disk", true},
                                  {"runner.slot.after_link", true},     {"runner.slot.after_build", true},
                                  {"runner.disk.after_make", true},     {"launcher.after_userns", true}};

std::string name_of(const testing::TestParamInfo<Point>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(, StartFault, testing::ValuesIn(kStartPoints), name_of);
INSTANTIATE_TEST_SUITE_P(, StopFault, testing::ValuesIn(kStopPoints), name_of);
INSTANTIATE_TEST_SUITE_P(, NetworkFault, testing::ValuesIn(kNetworkPoints), name_of);
INSTANTIATE_TEST_SUITE_P(, QuietFault, testing::ValuesIn(kQuietPoints), name_of);

}  // namespace
}  // namespace atl::runner_test
