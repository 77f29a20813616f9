// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/api_fixture.h"

namespace atl::api {
namespace {

using testing::HasSubstr;

constexpr const char* kShort = R"("approvalID":"apr_1","state":"pending","sandboxID":"i1","rule":"tenant/pay",
  "method":"POST","url":"https://pay.example/","createdAt":"2026-01-01T00:00:00.000Z",
  "expiresAt":"2026-01-01T01:00:00.000Z")";

class ApprovalRoutesTest : public test::GatewayApiFixture {};

TEST_F(ApprovalRoutesTest, EverybodySeesTheOwnTenants) {
  gateway_.answer = fmt::format(R"({{"approvals":[{{{}}}]}})", kShort);
  EXPECT_EQ(call("GET", "/v1/approvals?state=pending&sandbox=i1&limit=5").status, 200);
  EXPECT_EQ(last(), "GET /v1/approvals/" + tenant_.id + "?state=pending&sandbox=i1&limit=5 ");
  gateway_.answer = fmt::format(R"({{{},"summary":"POST it"}})", kShort);
  EXPECT_EQ(call("GET", "/v1/approvals/apr_1").status, 200);
  EXPECT_EQ(last(), "GET /v1/approvals/" + tenant_.id + "/apr_1 ");
  gateway_.answer = R"({"approvals":[]})";
  EXPECT_EQ(call("GET", "/v1/approvals", "", api_.other_key()).status, 200);
  EXPECT_EQ(last().find(tenant_.id), std::string::npos);
}

TEST_F(ApprovalRoutesTest, TheKeyThatDecidesIsNamedAndNoBodyCanNameAnother) {
  gateway_.answer = fmt::format(R"({{{},"summary":"POST it"}})", kShort);
  EXPECT_EQ(call("POST", "/v1/approvals/apr_1", R"({"decision":"approve","by":"me"})").status, 200);
  EXPECT_THAT(last(), HasSubstr("POST /v1/approvals/" + tenant_.id + "/apr_1?by="));
  EXPECT_THAT(last(), HasSubstr(R"( {"decision":"approve","by":"me"})"));
  EXPECT_EQ(last().find("by=me"), std::string::npos);
  std::string id = api_.world.identity->keys(tenant_.id).front().id;
  EXPECT_THAT(last(), HasSubstr(id));
  // An id is one segment, whatever is in it.
  EXPECT_EQ(call("POST", "/v1/approvals/a%2Fb%3Fby=x", R"({"decision":"deny"})").status, 200);
  EXPECT_THAT(last(), HasSubstr("/a%2Fb%3Fby%3Dx?by="));
}

TEST_F(ApprovalRoutesTest, ASandboxesTokenIsNoKey) {
  for (const char* token : {"atoll_st_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "atoll_nt_x.y.z"}) {
    EXPECT_EQ(call("GET", "/v1/approvals", "", token).status, 401);
    EXPECT_EQ(call("POST", "/v1/approvals/apr_1", R"({"decision":"approve"})", token).status, 401);
  }
  EXPECT_EQ(last(), "");
}

}  // namespace
}  // namespace atl::api
