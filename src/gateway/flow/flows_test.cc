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
  Registry registry;
  Flows flows(registry);
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
  Registry registry;
  Flows flows(registry);
  std::vector<std::shared_ptr<void>> handles;
  Flows::Entry any{[](const SandboxPtr&) { return true; }, [] {}};
  for (std::size_t i = 0; i < Flows::kMaxPerSandbox; ++i) handles.push_back(flows.open("a", any));
  EXPECT_EQ(flows.open("a", any), nullptr);
  EXPECT_NE(flows.open("b", any), nullptr);
  handles.pop_back();
  EXPECT_NE(flows.open("a", any), nullptr);
}

TEST(Flows, WhatMayNotGoOnIsNotOpened) {
  Registry registry;
  Flows flows(registry);
  Flows::Entry entry{[](const SandboxPtr& now) { return now != nullptr; }, [] {}};
  EXPECT_EQ(flows.open("a", entry), nullptr);
  registry.put(sandbox(1));
  EXPECT_NE(flows.open("a", entry), nullptr);
}

// A clock that stands still until it is moved.
class StillClock final : public Clock {
 public:
  WallTime now() const override { return at; }
  Steady::time_point steady_now() const override { return {}; }
  WallTime at{1'000'000};
};

TEST(Events, OneSandboxCannotFillThem) {
  StillClock clock;
  Events events(clock);
  Sandbox one = sandbox(1);
  for (int i = 0; i < 100; ++i) events.denied(one, "x:1", {"rule", "why", ""});
  Events::Batch batch = events.after(0);
  EXPECT_EQ(batch.events.size(), Events::kMostPerSandboxAndSecond);
  EXPECT_EQ(batch.lost, 100 - Events::kMostPerSandboxAndSecond);
  clock.at = WallTime{1'001'000};
  events.denied(one, "x:1", {"rule", "why", ""});
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
