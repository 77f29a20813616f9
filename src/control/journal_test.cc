// SPDX-License-Identifier: Apache-2.0
//
// What the journal is told, and that it stays small.
#include <gtest/gtest.h>

#include "support/service_fixture.h"

namespace atl::control {
namespace {

class JournalTest : public test::ServiceTest {};

TEST_F(JournalTest, TimeoutsThatAreSetAgainAndAgainDoNotFillTheJournal) {
  std::string id = create_one();
  auto set = [&] {
    return world().run(service().set_timeout(world().tenant, id, std::chrono::seconds(600),
                                             SandboxService::Extend::kReplace));
  };
  auto told = [&] {
    store::EventQuery query{.tenant = world().tenant, .type = "sandbox.timeout"};
    return world().run(service().events(query))->size();
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(set().ok());
  EXPECT_EQ(told(), 1u);
  world().clock.advance(std::chrono::seconds(61));
  ASSERT_TRUE(set().ok());
  EXPECT_EQ(told(), 2u);
}

TEST_F(JournalTest, AllThatIsOldIsPrunedInOneGo) {
  world().clock.advance(std::chrono::hours(24 * 10));
  auto filled = world().db->run_blocking([](store::Connection& c) {
    return c.exec(
        "INSERT INTO events (at, tenant, sandbox, type, message, data)"
        " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)"
        " SELECT 1, 'x', 'i', 'old', '', '{}' FROM n");
  });
  ASSERT_TRUE(filled.ok());
  world().run(service().prune());
  EXPECT_EQ(world().run(service().events({.all_tenants = true, .type = "old"}))->size(), 0u);
}

}  // namespace
}  // namespace atl::control
