// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/api_fixture.h"

namespace atl::api {
namespace {

constexpr const char* kValue = "sk-live-4242424242424242";

class SecretsTest : public test::GatewayApiFixture {
 protected:
  static std::string secret(int number) {
    return fmt::format(
        R"({{"secretID":"sec_{0:02}","name":"n{0}","currentVersion":1,"metadata":{{}},)"
        R"("createdAt":"2026-01-01T00:00:{0:02}.000Z","updatedAt":"2026-01-01T00:00:00.000Z"}})",
        number);
  }
  std::string base() const { return "/v1/vault/" + tenant_.id + "/"; }
};

TEST_F(SecretsTest, ArePassedOnForTheTenantOfTheKey) {
  gateway_.status = 201;
  gateway_.answer = secret(1);
  auto made = call("POST", "/secrets", R"({"name":"a","value":"sk-live-4242424242424242"})");
  EXPECT_EQ(made.status, 201) << made.text;
  EXPECT_EQ(made.body.at("secretID").as_string(), "sec_01");
  EXPECT_EQ(made.text.find(kValue), std::string::npos);
  EXPECT_EQ(gateway_.asked.back(),
            "POST " + base() + R"(secrets {"name":"a","value":"sk-live-4242424242424242"})");
  gateway_.status = 200;
  EXPECT_EQ(call("POST", "/secrets/a%2Fb", R"({"value":"v"})").status, 200);
  EXPECT_EQ(gateway_.asked.back(), "POST " + base() + R"(secrets/a%2Fb {"value":"v"})");
  EXPECT_EQ(call("GET", "/secrets/a").status, 200);
  EXPECT_EQ(gateway_.asked.back(), "GET " + base() + "secrets/a ");
  gateway_.status = 204;
  EXPECT_EQ(call("DELETE", "/secrets/a").status, 204);
  EXPECT_EQ(gateway_.asked.back(), "DELETE " + base() + "secrets/a ");
}

TEST_F(SecretsTest, OfAnotherTenantAreAskedForInItsName) {
  auto key = api_.other_key();
  gateway_.status = 404;
  gateway_.answer = R"({"code":404,"message":"no secret 'a'","error_code":"secret_not_found"})";
  auto answer = call("GET", "/secrets/a", "", key);
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.word(), "secret_not_found");
  EXPECT_EQ(gateway_.asked.back().find(tenant_.id), std::string::npos);
  auto before = gateway_.asked.size();
  EXPECT_EQ(call("GET", "/secrets/a", "", "wrong").status, 401);
  EXPECT_EQ(call("POST", "/secrets", R"({"name":"a","value":"v"})", "none").status, 401);
  EXPECT_EQ(gateway_.asked.size(), before);
}

TEST_F(SecretsTest, AreListedInPages) {
  std::string list;
  for (int i = 1; i <= 5; ++i) list += (i > 1 ? "," : "") + secret(i);
  gateway_.answer = R"({"secrets":[)" + list + "]}";
  std::string seen, token;
  int pages = 0;
  do {
    auto page = call("GET", "/secrets?limit=2" + (token.empty() ? "" : "&nextToken=" + token));
    ASSERT_EQ(page.status, 200) << page.text;
    for (const auto& one : page.body.as_array()) seen += std::string(one.at("name").as_string()) + " ";
    token = page.header("x-next-token");
    ++pages;
  } while (!token.empty());
  EXPECT_EQ(seen, "n1 n2 n3 n4 n5 ");
  EXPECT_EQ(pages, 3);
  EXPECT_EQ(call("GET", "/secrets?nextToken=x").status, 400);
}

TEST_F(SecretsTest, BindingsAndAuthorizationsArePassedOn) {
  gateway_.status = 201;
  gateway_.answer = R"({"bindingID":"bnd_1","secretID":"sec_1","host":"a.example","port":443,"path":"/"})";
  EXPECT_EQ(call("POST", "/v1/bindings", R"({"secret":"a","host":"a.example"})").status, 201);
  EXPECT_EQ(gateway_.asked.back(), "POST " + base() + R"(bindings {"secret":"a","host":"a.example"})");
  gateway_.status = 200;
  gateway_.answer = R"({"bindings":[]})";
  EXPECT_EQ(call("GET", "/v1/bindings").status, 200);
  gateway_.answer = R"({"url":"https://a/","state":"s"})";
  EXPECT_EQ(call("POST", "/v1/secrets/a/authorization").status, 200);
  EXPECT_EQ(gateway_.asked.back(), "POST " + base() + "secrets/a/authorization ");
  gateway_.answer = R"({"done":true})";
  EXPECT_EQ(call("POST", "/v1/secrets/a/authorization/finish", R"({"state":"s","code":"c"})").status, 200);
  EXPECT_EQ(gateway_.asked.back(),
            "POST " + base() + R"(secrets/a/authorization/finish {"state":"s","code":"c"})");
  gateway_.status = 204;
  EXPECT_EQ(call("DELETE", "/v1/bindings/bnd_1").status, 204);
}

TEST_F(SecretsTest, TheVaultsKeyIsTheAdministratorsToChange) {
  gateway_.answer = R"({"fingerprint":"f"})";
  auto before = gateway_.asked.size();
  EXPECT_EQ(call("POST", "/v1/vault/key", "", "wrong").status, 401);
  EXPECT_EQ(gateway_.asked.size(), before);
}

TEST_F(SecretsTest, ServicesArePassedOn) {
  gateway_.status = 201;
  gateway_.answer = R"({"name":"a","url":"https://a.example"})";
  EXPECT_EQ(call("POST", "/v1/services", R"({"name":"a","url":"https://a.example"})").status, 201);
  EXPECT_EQ(gateway_.asked.back(), "POST " + base() + R"(services {"name":"a","url":"https://a.example"})");
  gateway_.status = 200;
  gateway_.answer = R"({"services":[]})";
  EXPECT_EQ(call("GET", "/v1/services").status, 200);
  gateway_.status = 204;
  EXPECT_EQ(call("DELETE", "/v1/services/a").status, 204);
  EXPECT_EQ(gateway_.asked.back(), "DELETE " + base() + "services/a ");
}

TEST_F(SecretsTest, WithoutAGatewayTheAnswerSaysSo) {
  api_.services.vault = control::VaultLink(nullptr);
  auto answer = call("POST", "/secrets", R"({"name":"a","value":"sk-live-4242424242424242"})");
  EXPECT_EQ(answer.status, 501);
  EXPECT_EQ(answer.word(), "gateway_off");
  EXPECT_EQ(call("POST", "/secrets", "{}").status, 501);
  EXPECT_EQ(answer.text.find(kValue), std::string::npos);
  auto gone = []() -> Task<Result<net::StreamPtr>> {
    co_return make_error(Code::kUnavailable, "connect: refused");
  };
  api_.services.vault = control::VaultLink(gone);
  EXPECT_EQ(call("GET", "/secrets").status, 503);
}

}  // namespace
}  // namespace atl::api
