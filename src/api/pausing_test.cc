// SPDX-License-Identifier: Apache-2.0
//
// Pause and resume over real HTTP, with a fake runner and fake guests behind it.
#include <gtest/gtest.h>

#include "support/api_fixture.h"

namespace atl::api {
namespace {

using test::ApiAnswer;
using test::ApiWorld;

class PauseApiTest : public test::ApiFixture {};

TEST_F(PauseApiTest, PauseConnectAndResume) {
  std::string id = api_.create(R"(,"timeout":100)");
  std::string path = "/sandboxes/" + id;
  EXPECT_EQ(call("POST", path + "/pause", R"({"memory":1})").status, 400);
  EXPECT_EQ(call("POST", path + "/pause").status, 204);
  EXPECT_EQ(call("POST", path + "/pause", "{}").status, 409);
  auto row = call("GET", path);
  EXPECT_EQ(row.body.at("state").as_string(), "paused");
  EXPECT_EQ(*parse_rfc3339(std::string(row.body.at("endAt").as_string())), api_.world.clock.now());
  EXPECT_EQ(ids(call("GET", "/v2/sandboxes?state=paused")), std::vector<std::string>{id});
  EXPECT_EQ(ids(call("GET", "/v2/sandboxes")), std::vector<std::string>{id});
  EXPECT_EQ(ids(call("GET", "/v2/sandboxes?state=running")).size(), 0u);
  EXPECT_EQ(ids(call("GET", "/sandboxes")).size(), 0u) << "the old form lists what runs";
  EXPECT_EQ(call("POST", path + "/timeout", R"({"timeout":50})").status, 409);
  EXPECT_EQ(call("GET", path + "/metrics").status, 200);

  EXPECT_EQ(call("POST", path + "/connect", R"({"timeout":50})").status, 201);
  EXPECT_EQ(call("POST", path + "/connect", R"({"timeout":50})").status, 200);
  EXPECT_EQ(call("POST", path + "/pause", R"({"memory":false})").status, 204);
  EXPECT_EQ(call("POST", path + "/resume", R"({"timeout":50})").status, 201);
  EXPECT_EQ(call("POST", path + "/pause").status, 204);
  EXPECT_EQ(call("DELETE", path).status, 204);
  for (const char* what : {"/pause", "/connect", "/resume"})
    EXPECT_EQ(call("POST", path + what, R"({"timeout":50})").status, 404) << what;
}

TEST_F(PauseApiTest, TheDeadlinePausesWhereThatWasAskedFor) {
  std::string id = api_.create(R"(,"timeout":100,"autoPause":true,"autoResume":{"enabled":true})");
  auto detail = call("GET", "/sandboxes/" + id);
  EXPECT_EQ(json::serialize(detail.body.at("lifecycle")), R"({"autoResume":true,"onTimeout":"pause"})");
  advance(std::chrono::seconds(101));
  EXPECT_EQ(call("GET", "/sandboxes/" + id).body.at("state").as_string(), "paused");
  EXPECT_EQ(
      call("POST", "/v2/sandboxes",
           R"({"templateID":"base","autoPause":true,"autoPauseMemory":false,"autoResume":{"enabled":true}})")
          .status,
      400);
}

TEST_F(PauseApiTest, WhyItIsAwakeOrAsleepIsShown) {
  std::string id = api_.create(R"(,"timeout":3600,"idleTimeout":300)");
  auto listed = call("GET", "/v2/sandboxes").body.as_array().at(0);
  EXPECT_EQ(listed.at("activity").at("because").as_string(), "recent");
  auto detail = call("GET", "/sandboxes/" + id).body;
  EXPECT_EQ(detail.at("idleTimeout").as_int64(), 300);
  EXPECT_EQ(detail.at("lifecycle").at("autoResume").as_bool(), true);
  EXPECT_EQ(*parse_rfc3339(std::string(detail.at("activity").at("sleepsAt").as_string())),
            api_.world.clock.now() + std::chrono::seconds(300));
  api_.world.guests.activity[id] = R"({"processes":2,"pid":31,"command":"make","quietMs":0})";
  auto own = call("GET", "/v1/sandboxes/" + id).body;
  EXPECT_EQ(own.at("activity").at("because").as_string(), "process");
  EXPECT_EQ(own.at("activity").at("detail").as_string(),
            "process 31 started through the API: make (and 1 more)");
  EXPECT_EQ(call("POST", "/sandboxes/" + id + "/pause").status, 204);
  own = call("GET", "/v1/sandboxes/" + id).body;
  EXPECT_EQ(own.at("activity").at("awake").as_bool(), false);
  EXPECT_EQ(own.at("activity").at("because").as_string(), "asked");
  EXPECT_EQ(call("DELETE", "/sandboxes/" + id).status, 204);
  EXPECT_FALSE(call("GET", "/v1/sandboxes/" + id).body.as_object().contains("activity"));
}

TEST_F(PauseApiTest, TheIdleTimeCanBeChanged) {
  std::string id = api_.create(R"(,"timeout":3600,"idleTimeout":300,"autoResume":{"enabled":false})");
  EXPECT_EQ(call("GET", "/sandboxes/" + id).body.at("lifecycle").at("autoResume").as_bool(), false);
  std::string path = "/v1/sandboxes/" + id + "/idle";
  auto changed = call("PUT", path, R"({"idleTimeout":60})");
  EXPECT_EQ(changed.status, 200);
  EXPECT_EQ(changed.body.at("idleTimeout").as_int64(), 60);
  EXPECT_EQ(call("GET", "/sandboxes/" + id).body.at("lifecycle").at("autoResume").as_bool(), false)
      << "what was said once holds";
  EXPECT_TRUE(call("PUT", path, R"({"idleTimeout":0})").body.at("idleTimeout").is_null());
  for (const char* bad :
       {R"({})", R"({"idleTimeout":-1})", R"({"idleTimeout":"5"})", R"({"idleTimeout":1e9})"})
    EXPECT_EQ(call("PUT", path, bad).status, 400) << bad;
  EXPECT_EQ(call("PUT", "/v1/sandboxes/iabcdefghij0123456789/idle", R"({"idleTimeout":60})").status, 404);
  EXPECT_EQ(
      call("POST", "/v2/sandboxes",
           R"({"templateID":"base","idleTimeout":60,"autoPauseMemory":false,"autoResume":{"enabled":true}})")
          .status,
      400);
  EXPECT_EQ(call("POST", "/v2/sandboxes", R"({"templateID":"base","idleTimeout":60,"autoPauseMemory":false})")
                .status,
            201);
}

}  // namespace
}  // namespace atl::api
