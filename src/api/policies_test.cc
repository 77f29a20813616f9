// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/api_fixture.h"

namespace atl::api {
namespace {

constexpr const char* kRules = R"({"version":1,"default":"deny"})";

class PoliciesTest : public test::GatewayApiFixture {};

TEST_F(PoliciesTest, NamesBecomeIds) {
  gateway_.answer = R"({"notes":[]})";
  EXPECT_EQ(call("PUT", "/v1/policies/tenant/" + tenant_.name, kRules).status, 200);
  EXPECT_EQ(last(), "PUT /v1/rules/tenant/" + tenant_.id + " " + kRules);
  EXPECT_EQ(call("PUT", "/v1/policies/tenant/" + tenant_.id, kRules).status, 200);
  EXPECT_EQ(last(), "PUT /v1/rules/tenant/" + tenant_.id + " " + kRules);
  std::string base = api_.services.catalog.find(tenant_.id, "base")->id;
  EXPECT_EQ(call("PUT", "/v1/policies/template/base", kRules).status, 200);
  EXPECT_EQ(last(), "PUT /v1/rules/template/" + base + " " + kRules);
  gateway_.answer = kRules;
  EXPECT_EQ(call("GET", "/v1/policies/template/base?trial=true").status, 200);
  EXPECT_EQ(last(), "GET /v1/rules/template/" + base + "?trial=true ");
}

TEST_F(PoliciesTest, RulesOfNobodyAreRefusedAndThoseOfSomebodyGoneCanBeRemoved) {
  EXPECT_EQ(call("PUT", "/v1/policies/tenant/nobody", kRules).status, 404);
  EXPECT_EQ(call("PUT", "/v1/policies/template/nothing", kRules).status, 404);
  EXPECT_EQ(call("PUT", "/v1/policies/operator/x", kRules).status, 400);
  EXPECT_EQ(last(), "");
  gateway_.status = 204;
  EXPECT_EQ(call("DELETE", "/v1/policies/tenant/gone").status, 204);
  EXPECT_EQ(last(), "DELETE /v1/rules/tenant/gone ");
}

TEST_F(PoliciesTest, AreListedWithTheNamesThatPeopleKnow) {
  std::string base = api_.services.catalog.find(tenant_.id, "base")->id;
  auto entry = [](const char* author, const std::string& name, const char* more) {
    return fmt::format(R"({{"author":"{}","name":"{}","rules":1,"updatedAt":"2026-01-01T00:00:00.000Z",{}}})",
                       author, name, more);
  };
  gateway_.answer = R"({"policies":[)" + entry("operator", "", R"("trial":false,"file":"/x")") + "," +
                    entry("tenant", tenant_.id, R"("trial":false)") + "," +
                    entry("template", base, R"("trial":true)") + "]}";
  auto answer = call("GET", "/v1/policies");
  ASSERT_EQ(answer.status, 200) << answer.text;
  const auto& list = answer.body.at("policies").as_array();
  EXPECT_EQ(std::string(list.at(1).at("name").as_string()), tenant_.name);
  EXPECT_EQ(std::string(list.at(1).at("id").as_string()), tenant_.id);
  EXPECT_EQ(list.at(2).at("name"), "base");
}

TEST_F(PoliciesTest, OnlyTheTenantAsksAboutItsSandbox) {
  auto made = call("POST", "/sandboxes", R"({"templateID":"base"})");
  ASSERT_EQ(made.status, 201) << made.text;
  std::string id(made.body.at("sandboxID").as_string());
  gateway_.answer = R"({"sandboxID":"x","state":"running","sets":[],"notes":[]})";
  EXPECT_EQ(call("GET", "/v1/sandboxes/" + id + "/policy").status, 200);
  EXPECT_EQ(last(), "GET /v1/rules/sandbox/" + id + " ");
  gateway_.answer = R"({"connection":"pass","verdict":"allow","rule":"default","rules":[]})";
  EXPECT_EQ(call("POST", "/v1/sandboxes/" + id + "/policy", R"({"url":"https://a.example/"})").status, 200);
  auto before = gateway_.asked.size();
  EXPECT_EQ(call("GET", "/v1/sandboxes/" + id + "/policy", "", api_.other_key()).status, 404);
  EXPECT_EQ(gateway_.asked.size(), before);
}

}  // namespace
}  // namespace atl::api
