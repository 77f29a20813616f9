// SPDX-License-Identifier: Apache-2.0
//
// What tests of the sandbox service share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "support/control_world.h"

namespace atl::test {

using control::SandboxService;
using control::ServiceOptions;

// A world with template `base` and a runner that is there.
class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() { start(0); }
  void start(std::uint32_t pool, ServiceOptions options = {}) {
    world_.reset();
    world_ = std::make_unique<World>(std::move(options));
    world_->add_template("base", kBuild, pool);
    world_->connect();
    world_->fill();
  }
  World& world() { return *world_; }
  SandboxService& service() { return *world_->service; }
  test::FakeRunner& runner() { return world_->runner; }
  std::string create_one(Millis timeout = std::chrono::seconds(60)) {
    auto made = world_->create(world_->spec(timeout));
    EXPECT_TRUE(made.ok()) << made.error().message();
    return made.ok() ? (*made)->id : std::string();
  }
  model::SandboxRow ended_row(const std::string& id) {
    auto row = world_->run(world_->service->find_any(world_->tenant, id));
    EXPECT_TRUE(row.ok()) << row.error().message();
    return row.ok() ? **row : model::SandboxRow();
  }
  bool known(const std::string& id) { return service().get(world_->tenant, id).ok(); }
  void settle() { world_->run(service().settle()); }
  void restart_and_connect() {
    world_->crash();
    world_->reopen();
    world_->connect();
  }
  void restart() {
    restart_and_connect();
    settle();
  }

  std::unique_ptr<World> world_;
};

}  // namespace atl::test
