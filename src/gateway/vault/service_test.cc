// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/service.h"

#include <gtest/gtest.h>

namespace atl::gateway::vault {
namespace {

namespace json = boost::json;

Result<Service> service(const std::string& name, const std::string& url) {
  return parse_service(json::object{{"name", name}, {"url", url}});
}

TEST(Service, SaysWhereRequestsGo) {
  auto models = service("Models.v1", "https://API.Example.com/v1/");
  ASSERT_TRUE(models.ok()) << models.error().message();
  EXPECT_EQ(models->name, "models.v1");
  EXPECT_EQ(models->authority.text(), "api.example.com:443");
  EXPECT_TRUE(models->secure);
  EXPECT_EQ(models->base, "/v1");
  EXPECT_EQ(json::serialize(write_service(*models)),
            R"({"name":"models.v1","url":"https://API.Example.com/v1"})");
  auto plain = service("a", "http://192.0.2.7:8080");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->authority.text(), "192.0.2.7:8080");
  EXPECT_FALSE(plain->secure);
  EXPECT_EQ(plain->base, "");
}

TEST(Service, WhatIsWrongIsRefused) {
  for (const char* url :
       {"", "ftp://a.example", "a.example", "https://", "https:///v1", "https://u:p@a.example",
        "https://a.example/v1?x=1", "https://a.example/v1#x", "https://a.example/a/../b",
        "https://a.example//b", "https://a.example/%2e%2e/b", "https://a.example/a b"}) {
    EXPECT_FALSE(service("a", url).ok()) << url;
  }
  for (const char* name : {"", ".", "..", "-a", "a/b", "a b"})
    EXPECT_FALSE(service(name, "https://a.example").ok()) << name;
  EXPECT_FALSE(parse_service(json::object{{"name", "a"}, {"url", "https://a.example"}, {"key", "x"}}).ok());
}

}  // namespace
}  // namespace atl::gateway::vault
