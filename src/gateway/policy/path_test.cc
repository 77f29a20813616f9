// SPDX-License-Identifier: Apache-2.0
#include "gateway/policy/path.h"

#include <gtest/gtest.h>

namespace atl::gateway::policy {
namespace {

bool matches(std::string_view pattern, std::string_view path) {
  auto read = parse_path_pattern(pattern);
  EXPECT_TRUE(read.ok()) << pattern;
  return read->matches(read_path(path));
}

TEST(RequestPath, IsDecodedOnce) {
  EXPECT_EQ(read_path("/a%20b/%C3%BC").text, "/a b/\xc3\xbc");
  EXPECT_EQ(read_path("/%61dmin").text, "/admin");
  EXPECT_EQ(read_path("/a/").segments, (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(read_path("/").segments, std::vector<std::string>{""});
  EXPECT_EQ(read_path("/100%25").text, "/100%");
  EXPECT_EQ(read_path("/a%3Bv=1").text, "/a;v=1");
  EXPECT_TRUE(read_path("*").clear());
}

// gateway.md section 5: '/pub/../admin', '%2e%2e' and '\' were passed on as spelled by nearly all.
TEST(RequestPath, SpellingsThatServersReadDifferentlyAreInDoubt) {
  for (const char* text : {"/pub/../admin",
                           "/pub/%2e%2e/admin",
                           "/pub/.%2E/admin",
                           "/./a",
                           "/a/.",
                           "/..",
                           "/pub\\..\\admin",
                           "/pub/%5c../admin",
                           "/a%2fb",
                           "/a%2Fb",
                           "//a",
                           "/a//b",
                           "/a//",
                           "/pub/..;/admin",
                           "/admin;a=b/users",
                           "/admin;",
                           "/a/.;x=1/b",
                           "/%252e%252e/admin",
                           "/a%25%32%66b",
                           "/a%00b",
                           "/a%0ab",
                           "/a%7f",
                           "/%c0%ae%c0%ae/admin",
                           "/%ff",
                           "/%",
                           "/%2",
                           "/%zz",
                           "admin",
                           "",
                           "http://x/"}) {
    EXPECT_FALSE(read_path(text).clear()) << text;
    EXPECT_TRUE(read_path(text).segments.empty()) << text;
  }
}

TEST(PathPattern, Forms) {
  EXPECT_TRUE(matches("/v1/messages", "/v1/messages"));
  EXPECT_TRUE(matches("/v1/messages", "/v1/%6dessages"));
  EXPECT_TRUE(matches("/v1/messages", "/v1/messages/"));
  EXPECT_TRUE(matches("/v1/messages/", "/v1/messages"));
  EXPECT_FALSE(matches("/v1/messages", "/v1/messages/x"));
  EXPECT_FALSE(matches("/v1/messages", "/v1/messagesx"));
  EXPECT_FALSE(matches("/v1/messages", "/V1/messages"));
  EXPECT_TRUE(matches("/v1/*/results", "/v1/a/results"));
  EXPECT_FALSE(matches("/v1/*/results", "/v1/a/b/results"));
  EXPECT_FALSE(matches("/v1/*", "/v1/"));
  EXPECT_TRUE(matches("/v1/**", "/v1"));
  EXPECT_TRUE(matches("/v1/**", "/v1/a/b"));
  EXPECT_FALSE(matches("/v1/**", "/v10"));
  EXPECT_TRUE(matches("/**", "/"));
  EXPECT_TRUE(matches("/", "/"));
  EXPECT_FALSE(matches("/", "/a"));
  EXPECT_FALSE(matches("/**", "*"));
  EXPECT_TRUE(matches("/a b", "/a%20b"));
}

TEST(PathPattern, ADoubtfulPathMatchesOnlyAsSpelled) {
  EXPECT_FALSE(matches("/**", "/a//b"));
  auto pattern = parse_path_pattern("/a/**").value();
  EXPECT_TRUE(pattern.matches_as_spelled("/a//b"));
  EXPECT_TRUE(pattern.matches_as_spelled("/a/%2f"));
  EXPECT_FALSE(pattern.matches_as_spelled("/%61/b"));
  EXPECT_FALSE(pattern.matches_as_spelled("a"));
}

TEST(PathPattern, RefusesOtherForms) {
  for (const char* text :
       {"", "v1", "/a/../b", "/./a", "/a//b", "/a*", "/*a/b", "/**/a", "/a/***", "/a\\b", "/%2e", "/a\nb"})
    EXPECT_FALSE(parse_path_pattern(text).ok()) << text;
}

}  // namespace
}  // namespace atl::gateway::policy
