// SPDX-License-Identifier: Apache-2.0
//
// Who may start a sandbox, and when: limits of tenants and of the host, what the machine has left, and turns.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/units.h"
#include "store/sandboxes.h"
#include "support/service_fixture.h"

namespace atl::control {
namespace {

using test::ServiceTest;
using wire::Type;

class AdmissionTest : public ServiceTest {};

TEST_F(AdmissionTest, SumsOfLimitsHoldForTheHostAndForATenant) {
  ServiceOptions options;
  options.max_sums.memory_bytes = 3 * model::Limits().memory_bytes;
  start(0, options);
  for (int i = 0; i < 3; ++i) create_one();
  auto fourth = world().create();
  EXPECT_EQ(fourth.error().word(), "capacity");
  EXPECT_NE(fourth.error().message().find("memory"), std::string::npos) << fourth.error().message();

  model::Amounts limit;
  limit.processes = model::Limits().processes;
  auto tenant = world().run(world().identity->create_tenant("small", limit));
  ASSERT_TRUE(tenant.ok());
  auto spec = world().spec();
  spec.tenant = tenant->id;
  EXPECT_EQ(world().create(spec).error().word(), "capacity") << "the tenant has room, the host has not";
  ASSERT_TRUE(world().run(service().end_all()).ok());
}

// What the runtime of a tier may take is promised, too, and given back to the last byte.
TEST_F(AdmissionTest, TheOverheadOfATierCounts) {
  start(0);
  world().runner.tiers |= model::kGvisorTier;
  world().runner.disconnect();
  world().until([this] { return !service().status().runner_connected; });
  world().connect();
  model::Overhead overhead = model::overhead_of(model::Tier::kGvisor, 0);
  ASSERT_GT(overhead.memory_bytes, 0u);
  model::Amounts limit;
  limit.memory_bytes = model::Limits().memory_bytes + overhead.memory_bytes;
  auto tenant = world().run(world().identity->create_tenant("small", limit));
  ASSERT_TRUE(tenant.ok());
  auto spec = world().spec();
  spec.tenant = tenant->id;
  spec.isolation = model::IsolationWord(model::Tier::kGvisor);
  auto made = world().create(spec);
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_EQ(service().quota().host().memory_bytes, limit.memory_bytes);
  EXPECT_EQ(service().quota().host().processes, model::Limits().processes + overhead.processes);
  restart_and_connect();
  EXPECT_EQ(service().quota().host().memory_bytes, limit.memory_bytes);
  ASSERT_TRUE(world().run(service().kill(tenant->id, (*made)->id)).ok());
  EXPECT_EQ(service().quota().host().memory_bytes, 0u);
  limit.memory_bytes -= 1;
  tenant = world().run(world().identity->create_tenant("smaller", limit));
  ASSERT_TRUE(tenant.ok());
  spec.tenant = tenant->id;
  EXPECT_EQ(world().create(spec).error().word(), "quota");
  spec.isolation = model::IsolationWord(model::Tier::kContainer);
  EXPECT_TRUE(world().create(spec).ok()) << "it has none";
}

TEST_F(AdmissionTest, AsManyReadyOnesMakeRoomAsItTakesAndNoneInVain) {
  ServiceOptions options;
  options.max_sums.memory_bytes = 3 * model::Limits().memory_bytes;
  start(3, options);
  ASSERT_EQ(runner().entries.size(), 3u);
  Catalog::NewBuild large;
  large.tenant = world().tenant;
  large.name = *model::parse_template_ref("large");
  large.build.id = test::kBuild2;
  large.build.limits.memory_bytes *= 2;
  large.pool_size = 0;
  ASSERT_TRUE(world().run(world().catalog->register_build(std::move(large))).ok());
  auto spec = world().spec();
  spec.template_ref = "large";
  auto made = world().create(spec);
  EXPECT_TRUE(made.ok()) << made.error().message();
  EXPECT_EQ(runner().entries.size(), 2u);
  EXPECT_EQ(world().create(spec).error().word(), "capacity");
  EXPECT_EQ(runner().entries.size(), 2u) << "the last ready one would not have been enough";
}

TEST_F(AdmissionTest, WhereThereIsNoRoomARebootKeepsTheStoredMemory) {
  ServiceOptions options;
  options.max_sandboxes = 1;
  start(0, options);
  runner().memory_tiers = runner().tiers;
  std::string id = create_one();
  ASSERT_TRUE(world().run(service().pause(world().tenant, id, SandboxService::Memory::kKeep)).ok());
  ASSERT_EQ(runner().entries.at(id).rest, wire::Rest::kSaved);
  std::string other = create_one();
  auto connect = [&](SandboxService::Memory memory) {
    return world().run(service().connect(world().tenant, id, std::chrono::seconds(60), memory));
  };
  auto refused = connect(SandboxService::Memory::kLose);
  EXPECT_EQ(refused.error().word(), "capacity");
  EXPECT_EQ(runner().entries.at(id).rest, wire::Rest::kSaved);
  EXPECT_TRUE((*service().get(world().tenant, id))->rests_in_memory);
  ASSERT_TRUE(world().run(service().kill(world().tenant, other)).ok());
  EXPECT_TRUE(connect(SandboxService::Memory::kKeep).ok());
}

TEST_F(AdmissionTest, ATenantHasSumsOfItsOwn) {
  start(1);
  model::Amounts limit;
  limit.processes = 2 * model::Limits().processes;
  auto tenant = world().run(world().identity->create_tenant("small", limit));
  ASSERT_TRUE(tenant.ok());
  auto spec = world().spec();
  spec.tenant = tenant->id;
  EXPECT_TRUE(world().create(spec).ok());
  EXPECT_TRUE(world().create(spec).ok());
  auto third = world().create(spec);
  EXPECT_EQ(third.error().word(), "quota");
  EXPECT_NE(third.error().message().find("processes"), std::string::npos) << third.error().message();
  EXPECT_TRUE(known(create_one())) << "another tenant is not concerned";
}

TEST_F(AdmissionTest, NothingIsStartedOnAHostThatHasNoRoom) {
  sys::HostFacts facts{.memory_total = 8 * kGiB, .memory_free = 4 * kGiB};
  ServiceOptions options;
  options.measure_host = [&facts] { return facts; };
  start(1, options);
  facts.memory_free = 300 * kMiB;
  ASSERT_EQ(runner().entries.size(), 1u);
  world().clock.advance(std::chrono::seconds(1));  // the last measurement grows old
  EXPECT_TRUE(known(create_one())) << "one that is ready takes nothing more";
  auto refused = world().create();
  EXPECT_EQ(refused.error().word(), "capacity");
  EXPECT_NE(refused.error().message().find("300 of 8192 MiB of memory"), std::string::npos)
      << refused.error().message();
}

// One customer's flood is not everybody's outage.
TEST_F(AdmissionTest, AFloodOfOneTenantDelaysNobodyElse) {
  start(0);
  auto other = world().run(world().identity->create_tenant("calm", {}));
  ASSERT_TRUE(other.ok());
  runner().hold.insert(Type::kStart);
  std::vector<std::string> order;
  auto create = [&](const std::string& tenant) {
    auto spec = world().spec();
    spec.tenant = tenant;
    world().spawn(service().create(spec), [&order, tenant](Result<SandboxView> made) {
      EXPECT_TRUE(made.ok());
      order.push_back(tenant);
    });
  };
  for (int i = 0; i < 200; ++i) create(world().tenant);
  world().until([&] { return runner().entries.size() == 16; });
  create(other->id);
  // All stand in line, which they do when their rows are written.
  world().until([&] {
    auto rows = world().db->run_blocking([](store::Connection& c) { return store::load_live_sandboxes(c); });
    return rows.ok() && rows->size() == 201;
  });
  world().flush();
  runner().release_held();
  world().until([&] { return order.size() == 201; });
  auto place = std::find(order.begin(), order.end(), other->id) - order.begin();
  EXPECT_LT(place, 50) << "it came after as many as were under way, not after all";
}

TEST_F(AdmissionTest, AStartThatStandsInLineIsNotMadeAfterItsEnd) {
  runner().hold.insert(Type::kStart);
  for (int i = 0; i < 17; ++i) world().spawn(service().create(world().spec()), [](Result<SandboxView>) {});
  world().until([&] {
    auto rows = world().db->run_blocking([](store::Connection& c) { return store::load_live_sandboxes(c); });
    return rows.ok() && rows->size() == 17 && runner().waiting == 16;
  });
  std::optional<Result<std::size_t>> ended;
  world().spawn(service().end_all(), [&](Result<std::size_t> result) { ended.emplace(std::move(result)); });
  world().until([&] { return runner().entries.empty() && service().status().ending == 0; });
  runner().release_held();
  world().until([&] { return ended.has_value(); });
  EXPECT_TRUE(ended->ok());
  EXPECT_EQ(runner().started, 16u);
  EXPECT_TRUE(runner().entries.empty());
}

}  // namespace
}  // namespace atl::control
