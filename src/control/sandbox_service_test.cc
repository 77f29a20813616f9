// SPDX-License-Identifier: Apache-2.0
//
// The sandbox service over the real wires to a fake runner and fake guests, with a clock that the test moves.
#include "control/sandbox_service.h"

#include <gtest/gtest.h>

#include "support/control_world.h"

namespace atl::control {
namespace {

using test::kBuild;
using test::kBuild2;
using test::World;

TEST(SandboxService, CreateRunKill) {
  World world;
  world.add_template("base", kBuild, 0);
  world.connect();
  auto spec = world.spec();
  spec.envs = {{"A", "1"}};
  spec.metadata = {{"k", "v"}};
  auto made = world.create(spec);
  ASSERT_TRUE(made.ok()) << made.error().message();
  std::string id = (*made)->id;
  EXPECT_EQ((*made)->state, model::State::kRunning);
  EXPECT_TRUE(world.runner.entries.count(id));
  EXPECT_EQ(world.guests.inits[id].size(), 1u);
  EXPECT_NE(world.guests.inits[id][0].find(R"("envs":{"A":"1"})"), std::string::npos);
  EXPECT_TRUE(world.service->find(id));
  EXPECT_TRUE(world.run(world.service->kill(world.tenant, id)).ok());
  EXPECT_FALSE(world.runner.entries.count(id));
  EXPECT_FALSE(world.service->find(id));
  EXPECT_EQ(world.run(world.service->kill(world.tenant, id)).error().code(), Code::kNotFound);
  auto ended = world.run(world.service->find_any(world.tenant, id));
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ((*ended)->state, model::State::kStopped);
  EXPECT_EQ((*ended)->outcome, model::kOutcomeKilled);
  EXPECT_EQ(world.service->quota().held(), 0u);
}

}  // namespace
}  // namespace atl::control
