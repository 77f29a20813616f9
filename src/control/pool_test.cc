// SPDX-License-Identifier: Apache-2.0
//
// Pools of tiers other than the host's own: as large as the recent demand, and no larger than configured.
#include <gtest/gtest.h>

#include <set>

#include "support/service_fixture.h"

namespace atl::control {
namespace {

using test::kBuild2;
using test::ServiceTest;
using wire::Type;

constexpr auto kLongAgo = std::chrono::minutes(11);

class PoolTest : public ServiceTest {
 protected:
  void start(std::uint32_t pool, ServiceOptions options = {}) {
    // The host's own tier is container, unless the test names another.
    if (!options.default_isolation.tier) options.default_isolation.tier = model::Tier::kContainer;
    ServiceTest::start(pool, std::move(options));
    offer(true);
  }
  void offer(bool gvisor) {
    runner().tiers = static_cast<std::uint8_t>(1u << static_cast<unsigned>(model::Tier::kContainer));
    if (gvisor) runner().tiers |= 1u << static_cast<unsigned>(model::Tier::kGvisor);
    runner().disconnect();
    world().until([this] { return !service().status().reconciled; });
    world().connect();
    world().fill();
  }
  std::string create(model::Tier tier) {
    auto spec = world().spec();
    spec.isolation = model::IsolationWord(tier);
    auto made = world().create(spec);
    EXPECT_TRUE(made.ok()) << made.error().message();
    if (made.ok()) EXPECT_EQ((*made)->tier, tier);
    return made.ok() ? (*made)->id : std::string();
  }
  // Sandboxes of the tier that nobody owns.
  std::size_t ready(model::Tier tier) {
    ListQuery all;
    all.tenant = world().tenant;
    std::size_t count = 0;
    for (const auto& [id, entry] : runner().entries) count += entry.tier == tier ? 1 : 0;
    for (const auto& row : service().list(all).rows) count -= row->tier == tier ? 1 : 0;
    return count;
  }
  // Fills pools until `more` sandboxes are in them whose start command is not ready. Their names.
  std::set<std::string> fill_with_cold(std::size_t more) {
    std::size_t wanted = world().guests.asked_started + more;
    std::set<std::string> before = names();
    world().until([&] {
      service().fill_pools();
      return world().guests.asked_started == wanted;
    });
    std::set<std::string> out;
    for (const std::string& name : names())
      if (!before.contains(name)) out.insert(name);
    return out;
  }
  std::set<std::string> names() {
    std::set<std::string> out;
    for (const auto& [id, entry] : runner().entries) out.insert(id);
    return out;
  }
  std::size_t ready_gvisor() { return ready(model::Tier::kGvisor); }
};

TEST_F(PoolTest, AnotherTierHasAPoolOnlyOnceItWasAskedFor) {
  start(2);
  EXPECT_EQ(ready(model::Tier::kContainer), 2u);
  EXPECT_EQ(ready_gvisor(), 0u);
  std::string first = create(model::Tier::kGvisor);
  EXPECT_EQ(runner().entries[first].tier, model::Tier::kGvisor);
  world().fill();
  EXPECT_EQ(ready_gvisor(), 1u);
  EXPECT_EQ(ready(model::Tier::kContainer), 2u);
  std::size_t started = runner().started;
  create(model::Tier::kGvisor);
  EXPECT_EQ(runner().started, started) << "it was ready";
  create(model::Tier::kContainer);
  EXPECT_EQ(runner().started, started) << "each tier is given from its own pool";
}

TEST_F(PoolTest, OneWhoseStartCommandIsNotReadyIsTakenOnlyWhenThereIsNoOther) {
  start(2);
  EXPECT_EQ(service().status().ready, 2u);
  std::set<std::string> warm = names();
  world().guests.hold_started = true;
  EXPECT_TRUE(warm.contains(create(model::Tier::kContainer)));
  auto cold = fill_with_cold(1);
  EXPECT_EQ(service().status().ready, 1u) << "it says that it is ready only when it is";
  EXPECT_TRUE(warm.contains(create(model::Tier::kContainer)));
  EXPECT_TRUE(cold.contains(create(model::Tier::kContainer))) << "no start is as soon";
  cold = fill_with_cold(2);
  EXPECT_EQ(service().status().ready, 0u);
  world().guests.hold_started = false;
  world().guests.release();
  world().until([this] { return service().status().ready == 2; });
}

TEST_F(PoolTest, OneWhoseStartCommandDoesNotGetReadyStaysAndIsNotReplaced) {
  start(2);
  std::size_t started = runner().started;
  world().guests.started_status = 503;
  create(model::Tier::kContainer);
  world().fill();
  EXPECT_EQ(ready(model::Tier::kContainer), 2u);
  EXPECT_EQ(runner().started, started + 1);
}

TEST_F(PoolTest, OneThatIsTakenBeforeItIsReadyMakesRoomForTheNext) {
  start(2);
  world().guests.hold_started = true;
  create(model::Tier::kContainer);
  create(model::Tier::kContainer);
  for (int round = 0; round < 3; ++round) {
    auto cold = fill_with_cold(2);
    EXPECT_TRUE(cold.contains(create(model::Tier::kContainer)));
    EXPECT_TRUE(cold.contains(create(model::Tier::kContainer)));
  }
}

TEST_F(PoolTest, ItGrowsWithTheDemandUpToTheSizeOfTheTemplate) {
  start(2);
  for (int i = 0; i < 5; ++i) create(model::Tier::kGvisor);
  world().fill();
  EXPECT_EQ(ready_gvisor(), 2u);
}

TEST_F(PoolTest, ItGoesAwayWithTheDemand) {
  start(2);
  create(model::Tier::kGvisor);
  create(model::Tier::kGvisor);
  world().fill();
  ASSERT_EQ(ready_gvisor(), 2u);
  world().clock.advance(kLongAgo);
  std::string one_more = create(model::Tier::kGvisor);
  world().fill();
  EXPECT_EQ(ready_gvisor(), 1u);
  world().clock.advance(kLongAgo);
  world().fill();
  EXPECT_EQ(ready_gvisor(), 0u);
  EXPECT_EQ(ready(model::Tier::kContainer), 2u) << "the host's own tier is kept ready unasked";
  EXPECT_TRUE(known(one_more));
}

TEST_F(PoolTest, TheHostsOwnTierIsKeptReadyUnasked) {
  ServiceOptions options;
  options.default_isolation.tier = model::Tier::kGvisor;
  start(2, options);
  EXPECT_EQ(ready_gvisor(), 2u);
  EXPECT_EQ(ready(model::Tier::kContainer), 0u);
}

TEST_F(PoolTest, ATemplateThatWantsNoneReadyHasNoneInAnyTier) {
  start(0);
  create(model::Tier::kGvisor);
  world().fill();
  EXPECT_EQ(ready_gvisor(), 0u);
}

TEST_F(PoolTest, ASnapshotAsksForNothing) {
  start(2);
  SnapshotSpec spec;
  spec.tenant = world().tenant;
  spec.sandbox = create(model::Tier::kContainer);
  auto snapshot = world().run(service().snapshot(spec));
  ASSERT_TRUE(snapshot.ok()) << snapshot.error().message();
  world().fill();
  EXPECT_EQ(ready(model::Tier::kContainer), 2u);
  EXPECT_EQ(ready_gvisor(), 0u);
}

TEST_F(PoolTest, ItSurvivesARestartOfControl) {
  start(2);
  create(model::Tier::kGvisor);
  world().fill();
  ASSERT_EQ(ready_gvisor(), 1u);
  std::size_t started = runner().started;
  restart();
  world().fill();
  EXPECT_EQ(ready_gvisor(), 1u);
  create(model::Tier::kGvisor);
  EXPECT_EQ(runner().started, started) << "the one that was ready is still ready";
  world().clock.advance(kLongAgo);
  world().fill();
  EXPECT_EQ(ready_gvisor(), 0u);
}

TEST_F(PoolTest, ATierThatTheHostNoLongerOffersHasNone) {
  start(2);
  create(model::Tier::kGvisor);
  world().fill();
  ASSERT_EQ(ready_gvisor(), 1u);
  offer(false);
  EXPECT_EQ(ready_gvisor(), 0u);
}

TEST_F(PoolTest, ItFollowsItsTemplate) {
  start(2);
  create(model::Tier::kGvisor);
  world().fill();
  world().add_template("base", kBuild2, 2);
  world().fill();
  EXPECT_EQ(ready_gvisor(), 0u) << "nobody has asked for the new build yet";
  create(model::Tier::kGvisor);
  world().fill();
  ASSERT_EQ(ready_gvisor(), 1u);
}

TEST_F(PoolTest, ReadyOnesOfEveryTierCountAndMakeRoomOnAFullHost) {
  ServiceOptions options;
  options.max_sandboxes = 4;
  start(1, options);
  create(model::Tier::kGvisor);
  world().fill();
  ASSERT_EQ(ready_gvisor() + ready(model::Tier::kContainer), 2u);
  EXPECT_EQ(service().quota().held(), 3u);
  for (int i = 0; i < 3; ++i)
    create(model::Tier::kContainer);  // from the pool, from nothing, and in its place
  EXPECT_EQ(ready_gvisor(), 0u);
  EXPECT_LE(runner().most_entries, 4u);
  EXPECT_EQ(world().create().error().word(), "capacity");
}

TEST_F(PoolTest, NoMoreThanTheHostKeepsReadyAltogether) {
  ServiceOptions options;
  options.max_ready = 3;
  start(2, options);
  create(model::Tier::kGvisor);
  create(model::Tier::kGvisor);
  world().fill();
  EXPECT_EQ(service().status().ready, 3u);
}

}  // namespace
}  // namespace atl::control
