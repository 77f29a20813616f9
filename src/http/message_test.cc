// SPDX-License-Identifier: Apache-2.0
#include "http/message.h"

#include <gtest/gtest.h>

#include "http/connect_rpc.h"
#include "http/syntax.h"

namespace atl::http {
namespace {

TEST(Headers, SetReplacesAllOfThatName) {
  Headers headers{{"a", "1"}, {"b", "2"}, {"a", "3"}};
  headers.set("a", "4");
  EXPECT_EQ(headers.count("a"), 1u);
  EXPECT_EQ(headers.find("a"), "4");
  EXPECT_EQ(headers.find("b"), "2");
  headers.set("c", "5");
  EXPECT_EQ(headers.find("c"), "5");
  headers.remove("a");
  EXPECT_EQ(headers.find("a"), std::nullopt);
}

TEST(Headers, TokensAreFoundInListsWithoutCase) {
  Headers headers{{"connection", "keep-alive, Upgrade"}, {"connection", "x"}};
  EXPECT_TRUE(headers.has_token("connection", "upgrade"));
  EXPECT_TRUE(headers.has_token("connection", "x"));
  EXPECT_FALSE(headers.has_token("connection", "up"));
}

TEST(Percent, DecodesStrictly) {
  EXPECT_EQ(percent_decode("a%20b%2Fc+d"), "a b/c+d");
  EXPECT_EQ(percent_decode("a+b", Plus::kSpace), "a b");
  for (auto text : {"%", "%2", "a%", "%zz", "%2g", "%00", "x%0"})
    EXPECT_EQ(percent_decode(text), std::nullopt) << text;
  EXPECT_EQ(percent_decode("%ff"), "\xff");
}

TEST(Percent, EncodesEverythingButUnreserved) {
  EXPECT_EQ(percent_encode("aZ0-._~ /%\xff"), "aZ0-._~%20%2F%25%FF");
}

TEST(Query, ParsesPairsInOrder) {
  auto query = parse_query("a=1&b=x%20y+z&a=2&flag&=empty&&c=");
  ASSERT_TRUE(query.ok());
  EXPECT_EQ(query->size(), 6u);
  EXPECT_EQ(query_value(*query, "a"), "1");
  EXPECT_EQ(query_value(*query, "b"), "x y z");
  EXPECT_EQ(query_value(*query, "flag"), "");
  EXPECT_EQ(query_value(*query, "none"), std::nullopt);
}

TEST(Query, RefusesBadEscapes) {
  EXPECT_FALSE(parse_query("a=%").ok());
  EXPECT_FALSE(parse_query("%gg=1").ok());
}

TEST(Request, SplitsItsTarget) {
  RequestHead head;
  head.target = "/a%20b?x=1?y";
  EXPECT_EQ(head.path(), "/a%20b");
  EXPECT_EQ(head.query(), "x=1?y");
  head.target = "/";
  EXPECT_EQ(head.query(), "");
}

TEST(Authority, IsAHostWithAnOptionalPort) {
  for (auto text : {"a", "a.b:80", "127.0.0.1", "[::1]", "[::1]:80", "49983-x.atoll.localhost:7400"}) {
    EXPECT_TRUE(is_authority(text)) << text;
  }
  for (auto text : {"", ":80", "a:", "a:0", "a:65536", "a b", "a@b", "a/b", "[::1", "::1", "[]", "a:b:c",
                    "[::1]x", "ä"}) {
    EXPECT_FALSE(is_authority(text)) << text;
  }
}

TEST(Connect, EnvelopesSurviveAnySplit) {
  auto wire = connect::envelope("{\"a\":1}") + connect::envelope("") + connect::end_stream(nullptr);
  for (std::size_t step = 1; step <= wire.size(); ++step) {
    connect::EnvelopeReader reader;
    std::vector<std::string> seen;
    for (std::size_t at = 0; at < wire.size(); at += step) {
      reader.feed(std::string_view(wire).substr(at, step));
      for (;;) {
        auto next = reader.next();
        ASSERT_TRUE(next.ok());
        if (!next->has_value()) break;
        seen.push_back((*next)->payload);
      }
    }
    EXPECT_EQ(seen, (std::vector<std::string>{"{\"a\":1}", "", "{}"})) << step;
    EXPECT_TRUE(reader.empty());
  }
}

TEST(Connect, TooLargeAMessageIsRefusedByItsPrefixAlone) {
  connect::EnvelopeReader reader(10);
  reader.feed(std::string("\x00\x00\x00\x00\x0b", 5));
  auto next = reader.next();
  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.error().code(), Code::kTooLarge);
}

TEST(Connect, ErrorsHaveTheCodesOfTheProtocol) {
  Error error(Code::kNotFound, "no \"x\"");
  EXPECT_EQ(connect::error_json(error), R"({"code":"not_found","message":"no \"x\""})");
  EXPECT_EQ(connect::end_stream(&error).substr(5), R"({"error":{"code":"not_found","message":"no \"x\""}})");
  EXPECT_EQ(connect::end_stream(&error)[0], 2);
  EXPECT_EQ(connect::rpc_status("not_found"), 404);
  EXPECT_EQ(connect::rpc_status("failed_precondition"), 400);
  EXPECT_EQ(connect::rpc_status("nonsense"), 500);
}

}  // namespace
}  // namespace atl::http
