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

}  // namespace
}  // namespace atl::api
