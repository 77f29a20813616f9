// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/mount.h"

#include <gtest/gtest.h>

namespace atl::gateway {
namespace {

std::string remounted(std::string_view location, const std::string& base = "/v1") {
  AuthorityClaims claims;
  claims.host = "api.example";
  claims.default_port = 443;
  http::Headers headers;
  headers.add("location", std::string(location));
  remount(headers, agree(claims).value(), true, {"/svc/models", base});
  return std::string(*headers.find("location"));
}

TEST(Mount, ARedirectWithinTheServerStaysAtTheFront) {
  EXPECT_EQ(remounted("/v1/next?a=b"), "/svc/models/next?a=b");
  EXPECT_EQ(remounted("https://api.example/v1/next"), "/svc/models/next");
  EXPECT_EQ(remounted("/v1"), "/svc/models");
  EXPECT_EQ(remounted("/v1?page=2"), "/svc/models?page=2");
  EXPECT_EQ(remounted("https://api.example", ""), "/svc/models/");
  EXPECT_EQ(remounted("https://api.example?page=2", ""), "/svc/models/?page=2");
}

TEST(Mount, AUrlInAQueryIsNotWhereItLeads) {
  EXPECT_EQ(remounted("/v1/login?next=https://api.example/v1/x"),
            "/svc/models/login?next=https://api.example/v1/x");
}

TEST(Mount, WhatIsBesideTheBaseLeadsToNoOtherService) {
  for (const char* location : {"/v10/x", "/other", "next", "https://api.example/v10",
                               "//elsewhere.example/v1", "https://elsewhere.example/v1/x"})
    EXPECT_EQ(remounted(location), location);
}

}  // namespace
}  // namespace atl::gateway
