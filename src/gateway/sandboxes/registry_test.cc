// SPDX-License-Identifier: Apache-2.0
#include "gateway/sandboxes/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atl::gateway {
namespace {

using testing::ElementsAre;

Sandbox sandbox(const std::string& id, std::uint32_t slot, std::uint64_t generation = 1) {
  Sandbox out;
  out.id = id;
  out.tenant = "t";
  out.slot = slot;
  out.generation = generation;
  return out;
}

TEST(Registry, FindsBySlotAndById) {
  Registry registry;
  EXPECT_EQ(registry.by_slot(3), nullptr);
  registry.put(sandbox("a", 3));
  ASSERT_NE(registry.by_slot(3), nullptr);
  EXPECT_EQ(registry.by_slot(3)->id, "a");
  EXPECT_EQ(registry.find("a"), registry.by_slot(3));
}

TEST(Registry, SlotHasOneOwner) {
  Registry registry;
  registry.put(sandbox("a", 3));
  registry.put(sandbox("b", 3));
  EXPECT_EQ(registry.by_slot(3)->id, "b");
  EXPECT_EQ(registry.find("a"), nullptr);  // its end was not told, or comes late
  registry.remove("a", 1);
  EXPECT_EQ(registry.by_slot(3)->id, "b");
}

TEST(Registry, MovesWithItsSandbox) {
  Registry registry;
  registry.put(sandbox("a", 3));
  registry.put(sandbox("a", 4, 2));
  EXPECT_EQ(registry.by_slot(3), nullptr);
  EXPECT_EQ(registry.by_slot(4)->generation, 2u);
}

TEST(Registry, OldNewsChangesNothing) {
  Registry registry;
  registry.put(sandbox("a", 3, 5));
  registry.put(sandbox("a", 7, 4));
  EXPECT_EQ(registry.find("a")->slot, 3u);
  registry.remove("a", 4);
  EXPECT_NE(registry.find("a"), nullptr);
  registry.remove("a", 5);
  EXPECT_EQ(registry.find("a"), nullptr);
  EXPECT_EQ(registry.by_slot(3), nullptr);
}

TEST(Registry, SyncRemovesWhatIsNotInIt) {
  Registry registry;
  registry.put(sandbox("a", 1));
  registry.put(sandbox("b", 2));
  registry.replace_all({sandbox("b", 2, 2), sandbox("c", 1)});
  EXPECT_EQ(registry.find("a"), nullptr);
  EXPECT_EQ(registry.find("b")->generation, 2u);
  EXPECT_EQ(registry.by_slot(1)->id, "c");
  EXPECT_EQ(registry.size(), 2u);
}

TEST(Registry, TellsOfEachChangeUntilUnsubscribed) {
  Registry registry;
  std::vector<std::string> told;
  auto handle = registry.on_change([&](const std::string& id) { told.push_back(id); });
  registry.put(sandbox("a", 1));
  registry.put(sandbox("b", 1));
  registry.remove("b", 1);
  EXPECT_THAT(told, ElementsAre("a", "a", "b", "b"));
  handle.reset();
  registry.put(sandbox("c", 1));
  EXPECT_EQ(told.size(), 4u);
}

// Whoever is told may let its own handle go, and that of the one whose turn is next.
TEST(Registry, ACallMayEndSubscriptions) {
  Registry registry;
  std::vector<std::string> told;
  std::shared_ptr<void> first, second, third;
  first = registry.on_change([&](const std::string& id) {
    first.reset();
    second.reset();
    told.push_back("first " + id);
  });
  second = registry.on_change([&](const std::string& id) { told.push_back("second " + id); });
  third = registry.on_change([&](const std::string& id) { told.push_back("third " + id); });
  registry.put(sandbox("a", 1));
  registry.put(sandbox("b", 2));
  EXPECT_THAT(told, ElementsAre("first a", "third a", "third b"));
}

TEST(Registry, IsStaleUntilControlHasSpoken) {
  Registry registry;
  EXPECT_FALSE(registry.fresh());
  registry.heard();
  EXPECT_TRUE(registry.fresh());
}

}  // namespace
}  // namespace atl::gateway
