// SPDX-License-Identifier: Apache-2.0
//
// How templates are registered and changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/api_fixture.h"

namespace atl::api {
namespace {

using test::kBuild2;

class RegistrationTest : public test::ApiFixture {};

TEST_F(RegistrationTest, ABuildIsRegisteredAgainAsItIsAndNotOtherwise) {
  auto registered = [&](std::string_view name, std::string_view more) {
    return call("POST", "/v1/templates",
                fmt::format(R"({{"name":"{}","buildId":"{}"{}}})", name, kBuild2, more));
  };
  ASSERT_EQ(registered("tools", R"(,"memoryMB":256,"user":"root","idleTimeout":60,"poolSize":0)").status,
            201);
  auto again = registered("tools", R"(,"memoryMB":256,"poolSize":3,"minIsolation":"gvisor")");
  EXPECT_EQ(again.status, 200) << again.text;
  EXPECT_EQ(again.body.at("poolSize"), 3);
  EXPECT_EQ(again.body.at("minIsolation"), "gvisor");
  EXPECT_EQ(again.body.at("memoryMB"), 256);
  EXPECT_EQ(registered("tools:v2", "").status, 200) << "under one tag more";
  auto other = registered("tools", R"(,"memoryMB":512,"user":"root","envs":{"A":"1"},"poolSize":5)");
  EXPECT_EQ(other.status, 409);
  EXPECT_EQ(other.word(), "build_registered");
  EXPECT_THAT(other.message(), testing::HasSubstr("another environment, memory"));
  EXPECT_EQ(registered("tools", R"(,"idleTimeout":0)").status, 409);
  EXPECT_EQ(registered("base", "").word(), "build_registered") << "it is another template's";
  auto known = call("GET", "/templates/tools").body;
  EXPECT_EQ(known.at("poolSize"), 3) << "what is refused changes nothing";
  EXPECT_EQ(known.at("tags").as_object().size(), 2u);
  EXPECT_EQ(known.at("buildCount"), 1);
  control::Catalog stored(*api_.world.db, api_.world.clock, api_.world.path("templates"));
  ASSERT_TRUE(stored.load().ok());
  const model::Template* tools = stored.find(api_.world.tenant, "tools");
  ASSERT_NE(tools, nullptr);
  EXPECT_EQ(tools->pool_size, 3u);
  EXPECT_EQ(tools->tags.size(), 2u);
}

TEST_F(RegistrationTest, ATemplateThatIsThereIsReplacedOnlyByWhoSaysSo) {
  std::string body = fmt::format(R"({{"name":"base","buildId":"{}","poolSize":7,"replace":false}})", kBuild2);
  auto before = call("GET", "/v1/templates").body.at("templates");
  auto kept = call("POST", "/v1/templates", body);
  EXPECT_EQ(kept.status, 409);
  EXPECT_EQ(kept.word(), "template_exists");
  EXPECT_EQ(call("GET", "/v1/templates").body.at("templates"), before);
  ASSERT_EQ(call("DELETE", "/v1/templates/base").status, 204);
  EXPECT_EQ(call("POST", "/v1/templates", body).status, 201);
}

TEST_F(RegistrationTest, TheNumberOfReadySandboxesChanges) {
  EXPECT_EQ(call("PATCH", "/v1/templates/base", R"({"poolSize":2})").body.at("poolSize"), 2);
  api_.world.fill();
  EXPECT_EQ(call("GET", "/v1/status").body.at("sandboxes").at("ready"), 2);
  EXPECT_EQ(call("PATCH", "/v1/templates/base", R"({"isolation":"container"})").body.at("poolSize"), 2);
  EXPECT_EQ(call("PATCH", "/v1/templates/base", R"({"poolSize":1001})").status, 400);
  EXPECT_EQ(call("PATCH", "/v1/templates/base", R"({"poolSize":0})").body.at("isolation"), "container");
  api_.world.fill();
  EXPECT_EQ(call("GET", "/v1/status").body.at("sandboxes").at("ready"), 0);
}

}  // namespace
}  // namespace atl::api
