// SPDX-License-Identifier: Apache-2.0
//
// What tests of the whole runner share: a world where this machine allows one, and a client of its runner.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "support/runner_world.h"

namespace atl::runner_test {

class RunnerFixture : public testing::Test {
 protected:
  void SetUp() override {
    std::string obstacle = World::obstacle();
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
    world_.emplace();
  }
  // Starts the runner, to die at the point `fault` when one is given.
  void start(const std::string& fault = {}) {
    ASSERT_TRUE(world_->start(fault)) << world_->log();
    client_.emplace(world_->socket());
  }
  void restart(const std::string& fault = {}) {
    world_->kill();
    start(fault);
  }

  std::optional<World> world_;
  std::optional<WireClient> client_;
};

}  // namespace atl::runner_test
