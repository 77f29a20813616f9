// SPDX-License-Identifier: Apache-2.0
//
// How isolation is asked for and shown, and what is told of the host.
#include <gmock/gmock.h>

#include "support/api_fixture.h"

namespace atl::api {
namespace {

using testing::HasSubstr;

class IsolationApiTest : public test::ApiFixture {
 protected:
  void offer(model::Tiers tiers) {
    api_.world.runner.tiers = tiers;
    api_.world.runner.disconnect();
    api_.world.until([&] { return !api_.world.service->status().runner_connected; });
    api_.world.connect();
  }
  void offer_all() { offer(model::kContainerTier | model::kGvisorTier | model::kMicrovmTier); }
  test::ApiAnswer create(const std::string& more, std::vector<http::Header> headers = {}) {
    return call("POST", "/v2/sandboxes", R"({"templateID":"base")" + more + "}", "", std::move(headers));
  }
};

TEST_F(IsolationApiTest, ItIsAskedForByFieldHeaderAndNameAndShownEverywhere) {
  offer_all();
  struct Row {
    std::string body;
    std::vector<http::Header> headers;
    const char* isolation;
    const char* asked;
  };
  const std::vector<Row> rows = {
      {R"({"templateID":"base"})", {}, "gvisor", "gvisor"},
      {R"({"templateID":"base@container"})", {}, "container", "container"},
      {R"({"templateID":"base","risk":"high"})", {}, "microvm", "high"},
      {R"({"templateID":"base","isolation":"gvisor"})", {}, "gvisor", "gvisor"},
      {R"({"templateID":"base","isolation":"gvisor","risk":"low"})", {}, "gvisor", "gvisor"},
      {R"({"templateID":"base@container"})", {{"x-atoll-risk", "medium"}}, "gvisor", "medium"},
      {R"({"templateID":"base","risk":"low"})", {{"x-atoll-isolation", "microvm"}}, "microvm", "microvm"},
      {R"({"templateID":"base@gvisor","isolation":"gvisor"})",
       {{"x-atoll-isolation", "gvisor"}},
       "gvisor",
       "gvisor"},
  };
  for (const Row& row : rows) {
    auto made = call("POST", "/v2/sandboxes", row.body, "", row.headers);
    ASSERT_EQ(made.status, 201) << row.body << made.text;
    std::string id(made.body.at("sandboxID").as_string());
    auto list = call("GET", "/v2/sandboxes");
    auto listed = std::find_if(list.body.as_array().begin(), list.body.as_array().end(),
                               [&](const auto& item) { return item.at("sandboxID").as_string() == id; });
    ASSERT_NE(listed, list.body.as_array().end());
    for (const json::value& shown : {made.body, *listed, call("GET", "/sandboxes/" + id).body,
                                     call("GET", "/v1/sandboxes/" + id).body}) {
      EXPECT_EQ(shown.at("isolation"), row.isolation) << row.body;
      EXPECT_EQ(shown.at("isolationAsked"), row.asked) << row.body;
      EXPECT_EQ(shown.at("isolationAskedBy"), row.body == rows[0].body ? "host" : "caller") << row.body;
      EXPECT_EQ(shown.at("missingLayers"), json::array());
    }
  }
}

TEST_F(IsolationApiTest, WordsThatAreWrongOrContradictEachOtherAreRefused) {
  offer_all();
  std::size_t before = api_.world.runner.started;
  for (const char* more : {R"(,"risk":"extreme")", R"(,"risk":"container")", R"(,"isolation":"high")",
                           R"(,"risk":"")", R"(,"risk":3)"}) {
    EXPECT_EQ(create(more).status, 400) << more;
  }
  EXPECT_EQ(create(R"(,"risk":"low")", {{"x-atoll-risk", "high"}}).status, 400);
  EXPECT_EQ(create("", {{"x-atoll-risk", "no"}}).status, 400);
  EXPECT_EQ(create(R"(,"isolation":"gvisor")", {{"x-atoll-isolation", "microvm"}}).status, 400);
  EXPECT_EQ(api_.world.runner.started, before);
}

// What the gateway does with them is tried in tests/gateway/labels.py; here there is none.
TEST_F(IsolationApiTest, LabelsAreRefusedWhereTheyCannotBe) {
  auto refused = call("POST", "/v2/sandboxes", R"({"templateID":"base","labels":["git"]})");
  EXPECT_EQ(refused.status, 501);
  EXPECT_EQ(refused.word(), "label_unsupported");
  EXPECT_EQ(call("POST", "/v2/sandboxes", R"({"templateID":"base"})", "", {{"x-atoll-labels", "git"}}).status,
            501);
  EXPECT_EQ(call("POST", "/v2/sandboxes", R"({"templateID":"base"})", "", {{"x-atoll-labels", "a b"}}).status,
            400);
  auto open = call("POST", "/sandboxes", R"({"templateID":"base","labels":["git"],"secure":false})");
  EXPECT_EQ(open.word(), "label_unsupported");
  EXPECT_NE(open.message().find("access token"), std::string::npos) << open.message();
  std::string id = api_.create("");
  std::string path = "/v1/sandboxes/" + id + "/labels";
  EXPECT_EQ(call("PUT", path, R"({"labels":["git"]})").word(), "label_unsupported");
  EXPECT_EQ(call("PUT", path, R"({"labels":["a b"]})").status, 400);
  EXPECT_EQ(call("PUT", path, R"({})").status, 400);
  EXPECT_TRUE(call("GET", "/v1/sandboxes/" + id).body.at("labels").as_array().empty());
}

TEST_F(IsolationApiTest, TenantsAndTemplatesSayWhatTheyWant) {
  offer_all();
  std::string path = "/v1/tenants/" + api_.world.tenant;
  auto changed = call("PATCH", path, R"({"isolation":"medium","minIsolation":"container"})");
  ASSERT_EQ(changed.status, 200) << changed.text;
  EXPECT_EQ(changed.body.at("isolation"), "medium");
  EXPECT_EQ(changed.body.at("minIsolation"), "container");
  EXPECT_EQ(create("").body.at("isolationAskedBy"), "tenant");
  EXPECT_EQ(create("").body.at("isolation"), "gvisor");
  changed = call("PATCH", path, R"({"isolation":"none"})");
  EXPECT_TRUE(changed.body.at("isolation").is_null());
  EXPECT_EQ(changed.body.at("minIsolation"), "container") << "what was not named stays";
  changed = call("PATCH", "/v1/templates/base", R"({"minIsolation":"microvm"})");
  ASSERT_EQ(changed.status, 200) << changed.text;
  EXPECT_EQ(changed.body.at("minIsolation"), "microvm");
  auto made = create(R"(,"isolation":"container")");
  EXPECT_EQ(made.body.at("isolation"), "microvm");
  EXPECT_EQ(made.body.at("isolationAskedBy"), "template_minimum");
  EXPECT_EQ(call("PATCH", "/v1/tenants/other", R"({"isolation":"low"})").status, 404);
  EXPECT_EQ(call("PATCH", "/v1/templates/other", R"({"isolation":"low"})").status, 404);
  EXPECT_EQ(call("PATCH", path, R"({"isolation":"auto"})").status, 400);
  auto tenant = call("POST", "/v1/tenants", R"({"name":"strict","minIsolation":"high"})");
  EXPECT_EQ(tenant.body.at("minIsolation"), "high");
}

TEST_F(IsolationApiTest, MembersChangeNoRuleAndSeeNoPosture) {
  std::string member = api_.other_key();
  std::string path = "/v1/tenants/" + api_.world.tenant;
  EXPECT_EQ(call("PATCH", path, R"({"minIsolation":"none"})", member).status, 403);
  EXPECT_EQ(call("PATCH", "/v1/templates/base", R"({"minIsolation":"none"})", member).status, 403);
  EXPECT_EQ(call("GET", "/v1/host/posture", "", member).status, 403);
  EXPECT_EQ(call("GET", "/metrics", "", member).status, 403);
  EXPECT_EQ(call("GET", "/v1/host", "", member).status, 200);
}

TEST_F(IsolationApiTest, PostureAndMetricsShowEveryFeature) {
  auto& runner = api_.world.runner;
  runner.features.error[static_cast<std::size_t>(model::Feature::kLandlock)] = 38;
  runner.features.error[static_cast<std::size_t>(model::Feature::kRunsc)] = 2;
  runner.obstacles[model::Tier::kGvisor] = "there is no runsc in PATH";
  offer(model::kContainerTier);
  auto posture = call("GET", "/v1/host/posture");
  ASSERT_EQ(posture.status, 200) << posture.text;
  EXPECT_EQ(posture.body.at("missingLayers"), json::parse(R"(["landlock","gateway"])"));
  EXPECT_EQ(posture.body.at("defaultIsolation"), "auto");
  EXPECT_EQ(posture.body.at("degraded"), true);
  EXPECT_EQ(posture.body.at("tiers").at(0).at("usable"), true);
  EXPECT_EQ(posture.body.at("tiers").at(1).at("obstacle"), "there is no runsc in PATH");
  EXPECT_NE(posture.body.at("tiers").at(2).at("obstacle"), "");
  const json::array& features = posture.body.at("features").as_array();
  ASSERT_EQ(features.size(), model::features().size());
  auto metrics = call("GET", "/metrics");
  for (const json::value& feature : features) {
    std::string name(feature.at("name").as_string());
    bool missing = name == "landlock" || name == "runsc";
    EXPECT_EQ(feature.at("present"), !missing) << name;
    EXPECT_EQ(feature.at("error").is_null(), !missing) << name;
    EXPECT_EQ(feature.at("remedy").is_null(), !missing) << name;
    for (const char* list : {"neededBy", "usedBy"}) {
      for (const json::value& tier : feature.at(list).as_array()) {
        EXPECT_THAT(metrics.text,
                    HasSubstr(fmt::format("atoll_host_feature{{feature=\"{}\",tier=\"{}\"}} {}\n", name,
                                          std::string_view(tier.as_string()), missing ? 0 : 1)));
      }
    }
  }
  EXPECT_THAT(metrics.text, HasSubstr("atoll_host_tier{tier=\"container\"} 1\n"));
  EXPECT_THAT(metrics.text, HasSubstr("atoll_host_tier{tier=\"gvisor\"} 0\n"));
}

TEST_F(IsolationApiTest, ATierThatIsBeingTestedIsSaidToBe) {
  auto& runner = api_.world.runner;
  runner.tested_tiers = model::kGvisorTier;
  offer(model::kContainerTier);
  auto posture = call("GET", "/v1/host/posture");
  EXPECT_EQ(posture.body.at("beingTested"), json::parse(R"(["gvisor"])"));
  EXPECT_EQ(posture.body.at("isolation"), json::parse(R"(["container"])"));
  EXPECT_EQ(posture.body.at("defaultInForce"), "gvisor");
  EXPECT_EQ(posture.body.at("degraded"), false) << "nobody knows yet";
  EXPECT_EQ(posture.body.at("unusable").as_object().size(), 0u);
  const json::value& tier = posture.body.at("tiers").at(1);
  EXPECT_EQ(tier.at("usable"), false);
  EXPECT_EQ(tier.at("beingTested"), true);
  std::string metrics = call("GET", "/metrics").text;
  EXPECT_THAT(metrics, HasSubstr("atoll_host_tier{tier=\"gvisor\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("atoll_host_tier_being_tested{tier=\"gvisor\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("atoll_host_tier_being_tested{tier=\"container\"} 0\n"));
}

TEST_F(IsolationApiTest, WithoutARunnerNothingIsSaidOfTheHost) {
  api_.world.runner.down = true;
  api_.world.runner.disconnect();
  api_.world.until([&] { return !api_.world.service->status().runner_connected; });
  EXPECT_EQ(call("GET", "/v1/host/posture").status, 503);
  auto metrics = call("GET", "/metrics");
  EXPECT_THAT(metrics.text, HasSubstr("atoll_runner_connected 0\n"));
  EXPECT_THAT(metrics.text, testing::Not(HasSubstr("atoll_host_feature")));
}

}  // namespace
}  // namespace atl::api
