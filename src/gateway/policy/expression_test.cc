// SPDX-License-Identifier: Apache-2.0
#include "gateway/policy/expression.h"

#include <gtest/gtest.h>

namespace atl::gateway::policy {
namespace {

struct Request {
  http::Headers headers{
      {"content-type", "application/json"}, {"x-team", "red"}, {"x-two", "1"}, {"x-two", "2"}};
  std::string body = R"({"model":"small","n":3,"stream":true,"list":[{"id":"a"}],"none":null,"half":1.5})";
  RequestFacts facts{.at = {.who = {"isandbox", "acme", "base", "git"},
                            .authority = parse_authority("api.example:443", 0).value(),
                            .address = std::nullopt,
                            .stream = Stream::kTls},
                     .method = "POST",
                     .path = "/v1/a%20b/messages",
                     .query = "beta=true&q=a+b&twice=1&twice=2",
                     .headers = &headers,
                     .body_bytes = 80,
                     .body = body,
                     .unix_seconds = 1'700'000'000};  // 22:13:20 UTC

  Truth operator()(std::string_view text, bool as_spelled = false) {
    auto expression = Expression::compile(text);
    EXPECT_TRUE(expression.ok()) << text << ": " << (expression.ok() ? "" : expression.error().message());
    if (!expression.ok()) return Truth::kUnknown;
    RequestView view(facts);
    return (*expression)->evaluate(view, as_spelled);
  }
};

TEST(Expression, TrueOnes) {
  Request is;
  for (const char* text :
       {"true", "!false", "method == \"POST\"", "method == 'POST'", "host == \"api.example\"", "port == 443",
        "path == \"/v1/a b/messages\"", "segments[0] == \"v1\"", "\"messages\" in segments",
        "segments[1] == 'a b'", "query[\"beta\"] == \"true\"", "query['q'] == 'a b'",
        "header[\"X-Team\"] == \"red\"", "has(header['x-team'])", "!has(header['x-none'])",
        "json(\"/model\") == \"small\"", "json(\"/n\") <= 3", "json('/n') == 3", "json('/stream')==true",
        "json('/list/0/id') == 'a'", "has(json('/n')) && !has(json('/m'))", "size == 80", "size < 100",
        "secure", "label == 'git'", "sandbox == 'isandbox'", "tenant == 'acme'", "template == 'base'",
        "time >= \"22:00\" && time < \"22:14\"", "method in [\"GET\", \"POST\"]", "port in [80, 443]",
        "json('/n') in [1, 2, 3]", "path.startsWith(\"/v1/\")", "path.endsWith('messages')",
        "path.contains('a b')", "header['content-type'].matches('^application/(json|x)$')",
        "json('/model').startsWith('sm')", "method == 'GET' || port == 443",
        "!(method == 'GET') && (port == 443 || false)", "(port == 443) == true", "'a\\'b\\n' == \"a'b\\n\"",
        "1 < 2", "-1 < 0", "\"a\" < \"b\"", " \t\n true ", "port != 80",
        // One side decides, whatever is unknown on the other.
        "true || header['x-none'] == 'a'", "header['x-none'] == 'a' || true"})
    EXPECT_EQ(is(text), Truth::kTrue) << text;
}

TEST(Expression, FalseOnes) {
  Request is;
  for (const char* text :
       {"false", "method == 'GET'", "port in [1, 2]", "'x' in segments", "path.matches('^/v2')",
        "has(header['x-none'])", "has(query['none'])", "has(segments[9])", "false && header['x-none'] == 'a'",
        "header['x-none'] == 'a' && false", "time < '22:00'", "json('/model') != 'small'"})
    EXPECT_EQ(is(text), Truth::kFalse) << text;
}

TEST(Expression, WhatIsMissingOrUnclearIsUnknown) {
  Request is;
  for (const char* text : {"header['x-none'] == 'a'",
                           "!(header['x-none'] == 'a')",
                           "header['x-none'] != 'a'",
                           "header['x-two'] == '1'",
                           "has(header['x-two'])",
                           "query['none'] == ''",
                           "query['twice'] == '1'",
                           "segments[9] == 'x'",
                           "json('/m') == 1",
                           "json('/none') == 'x'",
                           "json('/half') == 1",
                           "json('/half') < 2",
                           "json('/n') == '3'",
                           "json('/n') != '3'",
                           "json('/stream') < 2",
                           "json('/n') in ['3']",
                           "json('/n').contains('3')",
                           "json('/list') == 'a'",
                           "header['x-none'].contains('')",
                           "header['x-none'] in ['a']",
                           "true && header['x-none'] == 'a'",
                           "false || header['x-none'] == 'a'"})
    EXPECT_EQ(is(text), Truth::kUnknown) << text;
}

TEST(Expression, ABodyThatCannotBeReadIsUnknown) {
  Request is;
  for (std::string body :
       {std::string("{"), std::string(R"({"model":"small","model":"large"})"), std::string(),
        std::string("{\"model\":\"\xff\"}"), R"({"model":"small"})" + std::string(kMaxJudgedBody, ' ')}) {
    is.facts.body = body;
    EXPECT_EQ(is("json('/model') == 'small'"), Truth::kUnknown) << body.substr(0, 40);
    EXPECT_EQ(is("has(json('/model'))"), Truth::kUnknown) << body.substr(0, 40);
  }
  is.facts.body.reset();
  EXPECT_EQ(is("json('/model') == 'small'"), Truth::kUnknown);
  is.facts.body_bytes.reset();
  EXPECT_EQ(is("size < 100"), Truth::kUnknown);
}

TEST(Expression, ADoubtfulPathIsUnknownUnlessAsSpelled) {
  Request is;
  is.facts.path = "/v1/../admin";
  for (const char* text :
       {"path == '/admin'", "segments[0] == 'v1'", "'admin' in segments", "has(segments[0])"})
    EXPECT_EQ(is(text), Truth::kUnknown) << text;
  EXPECT_EQ(is("path == '/v1/../admin'", true), Truth::kTrue);
  EXPECT_EQ(is("segments[1] == '..' && '..' in segments && !has(segments[3])", true), Truth::kTrue);
}

void expect_wrong(std::string_view text, std::size_t position) {
  auto expression = Expression::compile(text);
  ASSERT_FALSE(expression.ok()) << text;
  EXPECT_EQ(expression.error().word(), "invalid_expression");
  EXPECT_TRUE(expression.error().message().starts_with(fmt::format("position {}: ", position)))
      << text << ": " << expression.error().message();
}

TEST(Expression, ErrorsTellThePosition) {
  expect_wrong("", 1);
  expect_wrong("   ", 4);
  expect_wrong("method", 1);
  expect_wrong("method == ", 11);
  expect_wrong("method = 'a'", 8);
  expect_wrong("methud == 'a'", 1);
  expect_wrong("true and false", 6);
  expect_wrong("port == '443'", 8);
  expect_wrong("method < true", 9);
  expect_wrong("true < false", 7);
  expect_wrong("port && true", 13);
  expect_wrong("!port", 6);
  expect_wrong("method in []", 12);
  expect_wrong("method in [1]", 12);
  expect_wrong("method in ['a'", 15);
  expect_wrong("method in [port]", 12);
  expect_wrong("1 in segments", 5);
  expect_wrong("header['a b'] == 'x'", 8);
  expect_wrong("header == 'x'", 8);
  expect_wrong("header[x] == 'x'", 8);
  expect_wrong("segments[64] == 'x'", 10);
  expect_wrong("segments[-1] == 'x'", 10);
  expect_wrong("json('a') == 1", 6);
  expect_wrong("has(method)", 5);
  expect_wrong("path.upper() == 'x'", 6);
  expect_wrong("port.contains('4')", 6);
  expect_wrong("path.matches('(')", 6);
  expect_wrong("path.matches(path)", 14);
  expect_wrong("'open", 1);
  expect_wrong("'\\x41' == 'A'", 3);
  expect_wrong("99999999999999999999 == 1", 1);
  expect_wrong("1x == 1", 1);
  expect_wrong("(true", 6);
  expect_wrong("true)", 5);
  expect_wrong("a.b.c", 1);
  expect_wrong(std::string_view("true\0", 5), 5);
}

TEST(Expression, Bounds) {
  EXPECT_FALSE(Expression::compile(std::string(33, '(') + "true" + std::string(33, ')')).ok());
  EXPECT_TRUE(Expression::compile(std::string(30, '(') + "true" + std::string(30, ')')).ok());
  EXPECT_FALSE(Expression::compile(std::string(40, '!') + "true").ok());
  EXPECT_FALSE(Expression::compile("true" + std::string(kMaxExpressionBytes, ' ')).ok());
  std::string search = "path.matches('a')", many = search;
  for (int i = 0; i < 20; ++i) many += " || " + search;
  auto costly = Expression::compile(many);
  ASSERT_FALSE(costly.ok());
  EXPECT_NE(costly.error().message().find("costs"), std::string::npos);
  EXPECT_EQ(Expression::compile("path.matches('a')").value()->cost(), 26);
  EXPECT_FALSE(Expression::compile("path.matches('" + std::string(600, 'a') + "')").ok());
  EXPECT_FALSE(Expression::compile("path.matches('((a{100}){100}){100}')").ok());
}

TEST(Expression, TellsWhatItReads) {
  EXPECT_TRUE(Expression::compile("json('/a') == 1").value()->reads_body());
  EXPECT_FALSE(Expression::compile("path == '/a'").value()->reads_body());
  EXPECT_TRUE(Expression::compile("'a' in segments").value()->reads_path());
  EXPECT_FALSE(Expression::compile("method == 'GET'").value()->reads_path());
}

}  // namespace
}  // namespace atl::gateway::policy
