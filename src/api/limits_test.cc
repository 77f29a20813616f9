// SPDX-License-Identifier: Apache-2.0
//
// Limits of tenants and of the host, as clients see them.
#include <gtest/gtest.h>

#include "support/api_fixture.h"

namespace atl::api {
namespace {

class LimitsApiTest : public test::ApiFixture {};

TEST_F(LimitsApiTest, ATenantKeepsItsLimits) {
  auto made = call("POST", "/v1/tenants",
                   R"({"name":"small","maxMemoryMB":3,"maxCpuMillis":5,"maxProcesses":7,"maxDiskMB":11})");
  ASSERT_EQ(made.status, 201) << made.text;
  EXPECT_TRUE(made.body.at("maxSandboxes").is_null());
  for (auto [field, value] :
       {std::pair("maxMemoryMB", 3), {"maxCpuMillis", 5}, {"maxProcesses", 7}, {"maxDiskMB", 11}})
    EXPECT_EQ(made.body.at(field), value) << field;
  EXPECT_EQ(call("POST", "/v1/tenants", R"({"name":"none","maxMemoryMB":0})").status, 400);
}

TEST_F(LimitsApiTest, FreeSlotsAreThoseOfNow) {
  auto free = [&] { return call("GET", "/v1/status").body.at("runner").at("slotsFree").as_int64(); };
  std::int64_t before = free();
  std::string id = api_.create();
  EXPECT_EQ(free(), before - 1);
  EXPECT_EQ(call("DELETE", "/sandboxes/" + id).status, 204);
  EXPECT_EQ(free(), before);
}

TEST_F(LimitsApiTest, QuotaAndCapacityTellWhenToComeBack) {
  auto tenant = call("POST", "/v1/tenants", R"({"name":"small","maxSandboxes":2})");
  std::string id(tenant.body.at("id").as_string());
  std::string key(
      call("POST", "/v1/keys", R"({"name":"k","tenant":")" + id + R"("})").body.at("key").as_string());
  api_.create("", key);
  std::string second = api_.create("", key);
  auto refused = call("POST", "/v2/sandboxes", R"({"templateID":"base"})", key);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.word(), "quota");
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(call("DELETE", "/sandboxes/" + second, "", key).status, 204);
  api_.create("", key);
  api_.world.runner.slots = 0;
  auto full = call("POST", "/v2/sandboxes", R"({"templateID":"base"})");
  EXPECT_EQ(full.status, 503);
  EXPECT_EQ(full.word(), "capacity");
}

}  // namespace
}  // namespace atl::api
