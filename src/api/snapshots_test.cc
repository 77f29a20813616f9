// SPDX-License-Identifier: Apache-2.0
//
// Snapshots and forks as clients ask for them.
#include <gtest/gtest.h>

#include "support/api_fixture.h"

namespace atl::api {
namespace {

using test::ApiWorld;

class SnapshotApiTest : public test::ApiFixture {};

TEST_F(SnapshotApiTest, SnapshotsStandWhereTemplatesDo) {
  std::string id = api_.create();
  auto taken = call("POST", "/sandboxes/" + id + "/snapshots", R"({"name":"mine"})");
  ASSERT_EQ(taken.status, 201) << taken.text;
  EXPECT_EQ(taken.body.at("snapshotID").as_string(), "mine:default");
  EXPECT_EQ(taken.body.at("names").as_array().size(), 1u);
  auto unnamed = call("POST", "/sandboxes/" + id + "/snapshots");
  ASSERT_EQ(unnamed.status, 201) << unnamed.text;
  std::string reference(unnamed.body.at("snapshotID").as_string());
  EXPECT_EQ(unnamed.body.at("names").as_array().size(), 0u);
  auto made = call("POST", "/v2/sandboxes", R"({"templateID":")" + reference + R"("})");
  EXPECT_EQ(made.status, 201) << made.text;
  // Pages and filters.
  auto page = call("GET", "/snapshots?limit=1");
  EXPECT_EQ(page.body.as_array().size(), 1u);
  auto next = call("GET", "/snapshots?limit=1&nextToken=" + page.header("x-next-token"));
  EXPECT_EQ(next.body.as_array().size(), 1u);
  EXPECT_NE(next.text, page.text);
  EXPECT_EQ(next.header("x-next-token"), "");
  EXPECT_EQ(call("GET", "/snapshots?name=mine").body.as_array().size(), 1u);
  EXPECT_EQ(call("GET", "/snapshots?name=nobody").text, "[]");
  EXPECT_EQ(call("GET", "/snapshots?sandboxID=" + id).body.as_array().size(), 2u);
  EXPECT_EQ(call("GET", "/v1/snapshots").body.at("snapshots").as_array().size(), 2u);
  EXPECT_EQ(call("GET", "/v1/snapshots/mine").status, 200);
  // As clients remove them: by the id, encoded, as a template.
  EXPECT_EQ(call("DELETE", "/templates/mine%3Adefault").status, 204);
  auto again = call("DELETE", "/templates/mine%3Adefault");
  EXPECT_EQ(again.status, 404);
  EXPECT_EQ(again.body.at("code").as_int64(), 404);
  EXPECT_EQ(call("DELETE", "/v1/snapshots/" + reference).status, 204);
  EXPECT_EQ(call("POST", "/v1/snapshots/collect").status, 200);
  auto memory = call("POST", "/sandboxes/" + id + "/snapshots", R"({"memory":true})");
  EXPECT_EQ(memory.status, 501);
  EXPECT_EQ(memory.word(), "capability_unsupported");
}

TEST_F(SnapshotApiTest, ForkAnswersForEachChild) {
  std::string id = api_.create();
  api_.world.runner.slots = static_cast<std::uint32_t>(api_.world.runner.entries.size() + 2);
  auto forked = call("POST", "/sandboxes/" + id + "/fork", R"({"count":3,"timeout":30})");
  ASSERT_EQ(forked.status, 201) << forked.text;
  std::size_t made = 0, failed = 0;
  for (const auto& child : forked.body.as_array()) {
    if (const auto* sandbox = child.as_object().if_contains("sandbox")) {
      EXPECT_NE(sandbox->at("sandboxID").as_string(), id);
      ++made;
    } else {
      EXPECT_EQ(child.at("error").at("code").as_int64(), 503);
      ++failed;
    }
  }
  EXPECT_EQ(made, 2u);
  EXPECT_EQ(failed, 1u);
  for (const char* count : {"0", "101", "-1", "1.5", "\"2\""})
    EXPECT_EQ(call("POST", "/sandboxes/" + id + "/fork", fmt::format(R"({{"count":{}}})", count)).status,
              400);
  EXPECT_EQ(call("POST", "/sandboxes/i00000000000000000000/fork").status, 404);
}

}  // namespace
}  // namespace atl::api
