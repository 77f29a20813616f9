// SPDX-License-Identifier: Apache-2.0
#include "gateway/policy/dry_run.h"

#include <gtest/gtest.h>

namespace atl::gateway::policy {
namespace {

TEST(DryRun, ReadsUrls) {
  auto request = read_written_request("GET", "https://API.example:8443/v1/a%20b?x=1&y");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->authority.text(), "api.example:8443");
  EXPECT_TRUE(request->secure);
  EXPECT_EQ(request->path, "/v1/a%20b");
  EXPECT_EQ(request->query, "x=1&y");
  EXPECT_EQ(read_written_request("GET", "http://a.example")->path, "/");
  EXPECT_EQ(read_written_request("GET", "http://a.example?x")->query, "x");
  EXPECT_EQ(read_written_request("GET", "http://[::1]/")->authority.text(), "[::1]:80");
  for (const char* url : {"", "a.example", "ftp://a.example/", "http://", "http:///x", "https://u@a.example/",
                          "http://a.example/#x", "http://a.example/a b", "http://a.example:0/"})
    EXPECT_FALSE(read_written_request("GET", url).ok()) << url;
  EXPECT_FALSE(read_written_request("GE T", "http://a.example/").ok());
}

TEST(DryRun, TellsTheDecisionAndEachRule) {
  auto set = parse_rule_set(
      R"({"version":1,"rules":[{"id":"a","action":"allow","hosts":["a.example"],"methods":["GET"],
    "credential":"key","setHeaders":{"x-a":"secret"}},
    {"id":"d","action":"deny","hosts":["b.example"],"reason":"No."}]})",
      Source::kSandbox);
  auto policy = Policy::compile({*std::move(set)}).value();
  auto run = [&](const char* method, const char* url) {
    auto request = read_written_request(method, url).value();
    auto facts = facts_of(request);
    return boost::json::serialize(to_json(policy->connection(facts.at), policy->explain(facts)));
  };
  EXPECT_EQ(run("GET", "https://a.example/"),
            R"({"connection":"inspect","verdict":"allow","rule":"sandbox/a","credentials":["key"],)"
            R"("setHeaders":["x-a"],)"
            R"("rules":[{"rule":"sandbox/d","action":"deny","matched":false,"why":"host"},)"
            R"({"rule":"sandbox/a","action":"allow","matched":true}]})");
  EXPECT_TRUE(
      run("GET", "https://b.example/")
          .starts_with(R"({"connection":"deny","verdict":"deny","rule":"sandbox/d","reason":"No.",)"));
  EXPECT_NE(run("PUT", "https://a.example/").find(R"("verdict":"deny","rule":"default")"), std::string::npos);
}

}  // namespace
}  // namespace atl::gateway::policy
