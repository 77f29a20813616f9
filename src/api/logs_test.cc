// SPDX-License-Identifier: Apache-2.0
//
// Logs of sandboxes that have many.
#include <gtest/gtest.h>

#include "support/api_fixture.h"

namespace atl::api {
namespace {

class LogsTest : public test::ApiFixture {};

TEST_F(LogsTest, LogsAfterTheFirstThousandCanBeReached) {
  std::string id = api_.create();
  auto written = api_.world.db->run_blocking([&](store::Connection& db) -> Result<void> {
    for (int i = 0; i < 1100; ++i) {
      std::string message = fmt::format("number {}", i);
      TRY_VOID(store::append_event(db, {0, {i}, api_.world.tenant, id, "sandbox.x", message, "{}"}));
    }
    return success();
  });
  ASSERT_TRUE(written.ok());
  auto logs = [&](std::string path) { return json::serialize(call("GET", path).body.at("logs")); };
  std::string v1 = "/sandboxes/" + id + "/logs", v2 = "/v2/sandboxes/" + id + "/logs";
  EXPECT_NE(logs(v1 + "?start=1050").find("number 1050"), std::string::npos);
  EXPECT_EQ(logs(v1 + "?start=1050").find("number 1049"), std::string::npos);
  EXPECT_NE(logs(v2 + "?cursor=1050").find("number 1050"), std::string::npos);
  EXPECT_NE(logs(v2 + "?direction=backward&cursor=20").find("number 20"), std::string::npos);
  EXPECT_NE(logs(v2 + "?search=number%201099").find("number 1099"), std::string::npos);
}

}  // namespace
}  // namespace atl::api
