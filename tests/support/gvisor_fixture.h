// SPDX-License-Identifier: Apache-2.0
//
// What tests of the gvisor tier over the runner's wire share: a world with the real runsc.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "support/runner_world.h"

namespace atl::runner_test {

class GvisorTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string obstacle = World::obstacle();
    if (obstacle.empty() && World::runsc().empty()) obstacle = "needs runsc of 2024 or newer (tools/setup)";
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
    world_.emplace();
  }
  void start(const std::string& runsc, const std::string& fault = {}) {
    ASSERT_TRUE(world_->start(fault, {"--runsc", runsc})) << world_->log();
    client_.emplace(world_->socket());
    ASSERT_TRUE(client_->hello_when_tested()) << world_->log();
  }
  void start() { start(World::runsc()); }
  static wire::StartRequest request(char letter) {
    wire::StartRequest out = World::request(World::id(letter));
    out.tier = static_cast<std::uint8_t>(model::Tier::kGvisor);
    out.processes = 512;  // of which runsc has some for itself
    out.memory_bytes = 256ull << 20;
    return out;
  }
  wire::StartReply started(const wire::StartRequest& wanted) {
    auto reply = World::start_sandbox(*client_, wanted);
    if (!reply || reply->status.ok == 0) {
      ADD_FAILURE() << (reply ? reply->status.message.str() : "no reply") << "\n"
                    << world_->log() << sys::read_file(world_->path("run/gvisor.log")).value_or("");
      return {};
    }
    return *reply;
  }
  std::string link(char letter) { return started(request(letter)).interface.str(); }
  wire::HelloReply hello() {
    client_->send(wire::Empty{}, wire::Type::kHello);
    return client_->receive<wire::HelloReply>(wire::Type::kHelloReply).value_or(wire::HelloReply{});
  }
  bool gone(char letter) {
    return soon([&] { return world_->leftovers(World::id(letter)).empty(); });
  }

  std::optional<World> world_;
  std::optional<WireClient> client_;
};

}  // namespace atl::runner_test
