// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/flows.h"

#include <gtest/gtest.h>

#include "gateway/flow/events.h"

namespace atl::gateway {
namespace {

Sandbox sandbox(std::uint64_t generation, model::State state = model::State::kRunning) {
  Sandbox out;
  out.id = "a";
  out.tenant = "t";
  out.generation = generation;
  out.state = state;
  return out;
}

TEST(Flows, CutWhatMayNotGoOn) {
  async::asio::io_context loop;
  Registry registry;
  Flows flows(loop.get_executor(), registry);
  registry.put(sandbox(1));
  int cuts = 0;
  Flows::Entry entry;
  entry.may_go_on = [](const SandboxPtr& now) { return now && now->state == model::State::kRunning; };
  entry.cut = [&] { ++cuts; };
  auto handle = flows.open("a", std::move(entry));
  registry.put(sandbox(1));
  EXPECT_EQ(cuts, 0);
  registry.put(sandbox(1, model::State::kPausing));
  EXPECT_EQ(cuts, 1);
  registry.remove("a", 1);
  EXPECT_EQ(cuts, 2);
  handle.reset();
  EXPECT_EQ(flows.count("a"), 0u);
  registry.put(sandbox(2));
  EXPECT_EQ(cuts, 2);
}

TEST(Flows, OneSandboxHasABound) {
  async::asio::io_context loop;
  Registry registry;
  Flows flows(loop.get_executor(), registry);
  std::vector<std::shared_ptr<void>> handles;
  Flows::Entry any{[](const SandboxPtr&) { return true; }, [] {}};
  for (std::size_t i = 0; i < Flows::kMaxPerSandbox; ++i) handles.push_back(flows.open("a", any));
  EXPECT_EQ(flows.open("a", any), nullptr);
  EXPECT_NE(flows.open("b", any), nullptr);
  handles.pop_back();
  EXPECT_NE(flows.open("a", any), nullptr);
}

TEST(Flows, WhatMayNotGoOnIsNotOpened) {
  async::asio::io_context loop;
  Registry registry;
  Flows flows(loop.get_executor(), registry);
  Flows::Entry entry{[](const SandboxPtr& now) { return now != nullptr; }, [] {}};
  EXPECT_EQ(flows.open("a", entry), nullptr);
  registry.put(sandbox(1));
  EXPECT_NE(flows.open("a", entry), nullptr);
}

// Connections and requests of sandbox "a", and what was cut of them.
struct World {
  explicit World(Steady::duration grace) : flows(loop.get_executor(), registry, grace) {
    registry.put(sandbox(1));
  }
  std::shared_ptr<void> open(const std::string& name, bool request) {
    Flows::Entry entry;
    entry.may_go_on = [](const SandboxPtr& now) {
      return now && now->generation == 1 && now->state == model::State::kRunning;
    };
    entry.cut = [this, name] { cuts += name + " "; };
    entry.request = request;
    return flows.open("a", std::move(entry));
  }
  async::asio::io_context loop;
  Registry registry;
  Flows flows;
  std::string cuts;
};

constexpr auto kLong = std::chrono::hours(1);

TEST(Flows, APauseWaitsForRequestsAndAdmitsNothingNew) {
  World world(kLong);
  auto connection = world.open("connection", false);
  auto first = world.open("first", true);
  auto second = world.open("second", true);
  world.registry.put(sandbox(1, model::State::kPausing));
  EXPECT_EQ(world.cuts, "");
  EXPECT_EQ(world.flows.under_way("a"), 2u);
  EXPECT_EQ(world.open("new", true), nullptr);
  first.reset();
  world.registry.put(sandbox(1, model::State::kPausing));  // told again
  EXPECT_EQ(world.cuts, "");
  EXPECT_EQ(world.flows.under_way("a"), 1u);
  second.reset();  // with the last one everything goes, but not from within its end
  EXPECT_EQ(world.cuts, "");
  world.loop.poll();
  EXPECT_EQ(world.cuts, "connection ");
  EXPECT_EQ(world.flows.under_way("a"), 0u);
}

TEST(Flows, WhatDoesNotEndInItsGraceIsCut) {
  World world(std::chrono::milliseconds(1));
  auto connection = world.open("connection", false);
  auto request = world.open("request", true);
  world.registry.put(sandbox(1, model::State::kPausing));
  EXPECT_EQ(world.cuts, "");
  world.loop.run();
  EXPECT_EQ(world.cuts, "connection request ");
  EXPECT_EQ(world.flows.under_way("a"), 0u);
  request.reset();
  connection.reset();
}

TEST(Flows, WithoutRequestsAPauseCutsAtOnce) {
  World world(kLong);
  auto connection = world.open("connection", false);
  world.registry.put(sandbox(1, model::State::kPausing));
  EXPECT_EQ(world.cuts, "connection ");
}

TEST(Flows, ThereIsNoGraceForWhatIsPausedOrGone) {
  World world(kLong);
  auto request = world.open("request", true);
  world.registry.put(sandbox(1, model::State::kPausing));
  world.registry.put(sandbox(1, model::State::kPaused));
  EXPECT_EQ(world.cuts, "request ");
  world.registry.put(sandbox(2));
  EXPECT_EQ(world.cuts, "request request ");
  world.registry.remove("a", 2);
  EXPECT_EQ(world.cuts, "request request request ");
}

TEST(Flows, APauseThatIsCalledOffCutsNothing) {
  World world(kLong);
  auto request = world.open("request", true);
  world.registry.put(sandbox(1, model::State::kPausing));
  world.registry.put(sandbox(1));
  EXPECT_EQ(world.cuts, "");
  EXPECT_EQ(world.flows.under_way("a"), 0u);
  world.registry.put(sandbox(1, model::State::kPausing));  // begins anew
  EXPECT_EQ(world.flows.under_way("a"), 1u);
  request.reset();
}

TEST(Flows, TellsWhichRequestsAreUnderWayAndForHowLongNoneWas) {
  World world(kLong);
  auto connection = world.open("connection", false);
  EXPECT_EQ(world.flows.requests("a"), 0u);
  auto before = world.flows.quiet("a");
  auto request = world.open("request", true);
  EXPECT_EQ(world.flows.requests("a"), 1u);
  EXPECT_EQ(world.flows.requests("b"), 0u);
  connection.reset();
  EXPECT_GE(world.flows.quiet("a"), before) << "the end of a connection is none of a request";
  while (world.flows.quiet("a") < std::chrono::milliseconds(2)) {}
  request.reset();
  EXPECT_EQ(world.flows.requests("a"), 0u);
  EXPECT_LT(world.flows.quiet("a"), world.flows.quiet("b"));
  world.registry.remove("a", 1);
  EXPECT_GE(world.flows.quiet("a"), std::chrono::milliseconds(2)) << "nothing is kept of who is gone";
}

// A clock that stands still until it is moved.
class StillClock final : public Clock {
 public:
  WallTime now() const override { return at; }
  Steady::time_point steady_now() const override { return {}; }
  WallTime at{1'000'000};
};

TEST(Events, WhatAPersonDecidedIsToldAtAnyPace) {
  ManualClock clock;
  Events events(clock);
  Approval approval;
  approval.id = "apr_1";
  approval.question.sandbox = "a";
  approval.question.rule = "tenant/pay";
  for (int i = 0; i < 100; ++i) events.add(approval);
  approval.state = ApprovalState::kDenied;
  approval.decided_at = clock.now();
  approval.decided_by = "me";
  approval.reason = "too much";
  events.add(approval);
  Events::Batch batch = events.after(0);
  EXPECT_EQ(batch.events.size(), Events::kMostPerSandboxAndSecond + 1);
  EXPECT_EQ(batch.events.front().type, "approval.asked");
  const EgressEvent& last = batch.events.back();
  EXPECT_EQ(last.type, "approval.denied");
  EXPECT_EQ(last.decided_by, "me");
  EXPECT_EQ(last.reason, "approval apr_1 denied: too much");
}

TEST(Events, OneSandboxCannotFillThem) {
  StillClock clock;
  Events events(clock);
  Sandbox one = sandbox(1);
  for (int i = 0; i < 100; ++i) events.denied(one, "x:1", {"rule", "why", ""}, "git");
  Events::Batch batch = events.after(0);
  EXPECT_EQ(batch.events.size(), Events::kMostPerSandboxAndSecond);
  EXPECT_EQ(batch.lost, 100 - Events::kMostPerSandboxAndSecond);
  clock.at = WallTime{1'001'000};
  events.denied(one, "x:1", {"rule", "why", ""}, "git");
  // What was not acknowledged comes again, before what is new.
  EXPECT_EQ(events.after(0).events.size(), Events::kMostPerSandboxAndSecond + 1);
  batch = events.after(batch.last);
  EXPECT_EQ(batch.events.size(), 1u);
  EXPECT_EQ(batch.lost, 0u);
  EXPECT_TRUE(events.after(batch.last).events.empty());
  EXPECT_EQ(batch.events[0].sandbox, "a");
}

}  // namespace
}  // namespace atl::gateway
