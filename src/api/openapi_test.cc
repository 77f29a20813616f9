// SPDX-License-Identifier: Apache-2.0
//
// api/openapi.yaml and the route table say the same. That answers have the described shape is checked with
// every answer of the other tests (support/api_world.h).
#include <gtest/gtest.h>

#include "support/api_world.h"

namespace atl::api {
namespace {

using test::ApiWorld;
using test::OpenApi;

TEST(OpenApi, DescribesEveryRouteAndNothingElse) {
  OpenApi spec(ATOLL_OPENAPI);
  std::set<std::string> described, served;
  for (const auto& [path, item] : spec.paths()) {
    for (const auto& [method, operation] : item.as_object()) {
      if (method == "parameters") continue;
      std::string upper(method);
      for (char& c : upper) c = static_cast<char>(std::toupper(c));
      described.insert(upper + " " + std::string(path));
    }
  }
  for (const Route& route : all_routes()) {
    EXPECT_TRUE(served.insert(std::string(route.method) + " " + route.pattern).second)
        << route.pattern << " is there twice";
  }
  EXPECT_EQ(described, served);
}

TEST(OpenApi, SaysWhoMayCallAndWhetherABodyIsNeeded) {
  OpenApi spec(ATOLL_OPENAPI);
  for (const Route& route : all_routes()) {
    std::string what = std::string(route.method) + " " + route.pattern;
    const auto* operation = spec.operation(route.pattern, route.method);
    ASSERT_TRUE(operation) << what;
    EXPECT_EQ(operation->contains("security"), route.auth == Auth::kNone) << what;
    EXPECT_EQ(operation->contains("x-atoll-admin"), route.auth == Auth::kAdmin) << what;
    EXPECT_EQ(operation->contains("requestBody"), route.body != Body::kNone) << what;
    if (route.body == Body::kNone) continue;
    const auto& body = spec.resolve(operation->at("requestBody"));
    EXPECT_EQ(body.contains("required"), route.body == Body::kRequired) << what;
  }
}

TEST(OpenApi, DeclaresEveryPathParameter) {
  OpenApi spec(ATOLL_OPENAPI);
  for (const auto& [path, item] : spec.paths()) {
    std::set<std::string> named, declared;
    std::string text(path);
    re2::StringPiece rest(text);
    for (std::string name; RE2::FindAndConsume(&rest, R"(\{([^}]*)\})", &name);) named.insert(name);
    if (const auto* list = item.as_object().if_contains("parameters")) {
      for (const auto& parameter : list->as_array())
        declared.insert(std::string(spec.resolve(parameter).at("name").as_string()));
    }
    EXPECT_EQ(named, declared) << text;
  }
}

TEST(OpenApi, TheCheckItselfSeesMistakes) {
  OpenApi spec(ATOLL_OPENAPI);
  auto schema = json::parse(R"({"$ref":"#/components/schemas/Error"})");
  EXPECT_EQ(spec.check(json::parse(R"({"code":1,"message":"m","error_code":"w"})"), schema), "");
  EXPECT_NE(spec.check(json::parse(R"({"code":"1","message":"m","error_code":"w"})"), schema), "");
  EXPECT_NE(spec.check(json::parse(R"({"code":1,"message":"m"})"), schema), "");
  EXPECT_NE(spec.check(json::parse(R"({"code":1,"message":"m","error_code":"w","more":1})"), schema), "");
  auto isolation = json::parse(R"({"$ref":"#/components/schemas/Isolation"})");
  EXPECT_NE(spec.check(json::value("none"), isolation), "");
}

}  // namespace
}  // namespace atl::api
