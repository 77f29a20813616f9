// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/binding.h"

#include <gtest/gtest.h>

namespace atl::gateway::vault {
namespace {

namespace json = boost::json;

Binding binding(json::object rule, const std::string& secret, const std::string& tenant = "t1") {
  auto parsed = parse_binding(rule);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message();
  parsed->id = parsed->secret = secret;
  parsed->tenant = tenant;
  return *parsed;
}

struct Ask {
  std::string host = "api.example.com";
  std::uint16_t port = 443;
  bool secure = true;
  std::string method = "GET";
  std::string path = "/v1/x";
  std::string sandbox = "sbx1";
  std::string template_id = "tpl1";
  std::string tenant = "t1";
};

template <class Call>
auto with(const Ask& ask, const Call& call) {
  auto host = parse_host(ask.host);
  EXPECT_TRUE(host.ok()) << ask.host;
  return call(BindingRequest{ask.tenant, ask.sandbox, ask.template_id, *host, ask.port, ask.secure,
                             ask.method, ask.path});
}

// The secrets that match, in their order.
std::string found(const std::vector<Binding>& all, const Ask& ask) {
  return with(ask, [&](const BindingRequest& request) {
    std::string out;
    for (const auto* one : find(all, request)) out += (out.empty() ? "" : " ") + one->secret;
    return out;
  });
}

TEST(Binding, MatchesHostPortPathMethodAndSandbox) {
  std::vector<Binding> all{
      binding({{"host", "api.example.com"}, {"path", "/v1"}, {"methods", {"get", "POST"}}}, "a")};
  EXPECT_EQ(found(all, {}), "a");
  EXPECT_EQ(found(all, {.path = "/v1"}), "a");
  EXPECT_EQ(found(all, {.method = "POST"}), "a");
  EXPECT_EQ(found(all, {.host = "api.example.com."}), "a");
  EXPECT_EQ(found(all, {.host = "example.com"}), "");
  EXPECT_EQ(found(all, {.host = "api.example.com.evil.net"}), "");
  EXPECT_EQ(found(all, {.host = "evilapi.example.com"}), "");
  EXPECT_EQ(found(all, {.port = 8443}), "");
  EXPECT_EQ(found(all, {.secure = false}), "");
  EXPECT_EQ(found(all, {.method = "DELETE"}), "");
  EXPECT_EQ(found(all, {.path = "/v12"}), "");
  EXPECT_EQ(found(all, {.path = "/"}), "");
  EXPECT_EQ(found(all, {.tenant = "t2"}), "");
}

TEST(Binding, HostileInput_PathsThatServersReadDifferentlyMatchNoPath) {
  std::vector<Binding> all{binding({{"host", "api.example.com"}, {"path", "/pub"}}, "a")};
  for (auto path :
       {"/pub/../admin", "/pub/%2e%2e/admin", "/pub/%2E./admin", "/pub\\..\\admin", "/pub%2f..%2fadmin",
        "/pub//admin", "/pub/..;/admin", "/pub/.", "/pub/a;b", "/pub;a/b", "//pub", "pub", "/pub/%5cadmin"}) {
    EXPECT_EQ(found(all, {.path = path}), "") << path;
  }
  EXPECT_EQ(found(all, {.path = "/pub/a.b/..c/%20x"}), "a");
}

TEST(Binding, OnlySandboxesAndTemplatesThatAreNamed) {
  std::vector<Binding> all{
      binding({{"host", "api.example.com"}, {"sandboxes", {"sbx1"}}, {"templates", {"tpl9"}}}, "a")};
  EXPECT_EQ(found(all, {}), "a");
  EXPECT_EQ(found(all, {.sandbox = "sbx2", .template_id = "tpl9"}), "a");
  EXPECT_EQ(found(all, {.sandbox = "sbx2"}), "");
}

TEST(Binding, TheMostSpecificComesFirst) {
  std::vector<Binding> all{binding({{"host", "*.example.com"}}, "wild"),
                           binding({{"host", "api.example.com"}}, "exact"),
                           binding({{"host", "api.example.com"}, {"path", "/v1"}}, "path"),
                           binding({{"host", "api.example.com"}, {"sandboxes", {"sbx1"}}}, "mine"),
                           binding({{"host", "api.example.com"}}, "later")};
  EXPECT_EQ(found(all, {}), "path mine exact later wild");
}

TEST(Binding, Report40_ACredentialOfOneHostIsNotForAnotherAllowedHost) {
  // dam-agents/dam#92: host A's credential was picked, and the request went to B.
  std::vector<Binding> all{binding({{"host", "a.example"}}, "a"), binding({{"host", "b.example"}}, "b")};
  EXPECT_EQ(found(all, {.host = "b.example"}), "b");
  EXPECT_EQ(found(all, {.host = "c.example"}), "");
}

TEST(Binding, Report54_AWildcardNeedsALabelBoundary) {
  std::vector<Binding> all{binding({{"host", "*.trusted.net"}}, "a")};
  EXPECT_EQ(found(all, {.host = "untrusted.net"}), "");
  EXPECT_EQ(found(all, {.host = "trusted.net"}), "");
  EXPECT_EQ(found(all, {.host = "x.trusted.net"}), "a");
}

TEST(Binding, Report66_AHostWithACredentialIsOpenedAtEveryPort) {
  // vercel/eve#2440: interception was not on for the port, and the placeholder went out to the origin.
  std::vector<Binding> all{binding({{"host", "api.example.com"}}, "a")};
  auto brokered = [&all](const Ask& ask) {
    return with(ask, [&all](const BindingRequest& request) { return is_brokered(all, request); });
  };
  EXPECT_TRUE(brokered({.port = 8443}));
  EXPECT_TRUE(brokered({.path = "/elsewhere"}));
  EXPECT_FALSE(brokered({.host = "other.example.com"}));
  EXPECT_FALSE(brokered({.tenant = "t2"}));
  EXPECT_EQ(found(all, {.port = 8443}), "");
}

TEST(Binding, PathsMatterWhereACredentialIsForAPartOfThem) {
  // npm asks for "@scope%2fname": with a credential for the whole host that must go through.
  std::vector<Binding> all{binding({{"host", "whole.example.com"}}, "a"),
                           binding({{"host", "parts.example.com"}}, "b"),
                           binding({{"host", "parts.example.com"}, {"path", "/admin"}}, "c")};
  auto matter = [&all](const Ask& ask) {
    return with(ask, [&all](const BindingRequest& request) { return paths_matter(all, request); });
  };
  EXPECT_FALSE(matter({.host = "whole.example.com", .path = "/x/../admin"}));
  EXPECT_TRUE(matter({.host = "parts.example.com", .path = "/x/../admin"}));
  EXPECT_TRUE(matter({.host = "parts.example.com", .port = 8443}));
  EXPECT_FALSE(matter({.host = "parts.example.com", .tenant = "t2"}));
}

TEST(Binding, Report73_NoHostOfTheCallersChoiceGetsAKey) {
  // BerriAI/litellm#24952: `api_base` of the caller sent the stored key anywhere. A binding must name its
  // host.
  EXPECT_FALSE(parse_binding({{"host", "*"}}).ok());
  EXPECT_FALSE(parse_binding({{"path", "/v1"}}).ok());
}

TEST(Binding, CleartextMustBeAskedFor) {
  std::vector<Binding> all{binding({{"host", "api.example.com"}, {"port", 80}, {"cleartext", true}}, "a")};
  EXPECT_EQ(found(all, {.port = 80, .secure = false}), "a");
}

TEST(Binding, AnAddressMatchesOnlyAsAnAddress) {
  std::vector<Binding> all{binding({{"host", "192.0.2.7"}}, "a")};
  EXPECT_EQ(found(all, {.host = "192.0.2.7"}), "a");
  EXPECT_EQ(found(all, {.host = "192.0.2.8"}), "");
}

TEST(Binding, IsWrittenAsItWasRead) {
  json::object rule{{"host", "*.example.com"},
                    {"port", 8443},
                    {"path", "/v1"},
                    {"methods", {"GET"}},
                    {"sandboxes", {"s"}},
                    {"templates", {"t"}},
                    {"cleartext", true},
                    {"placeholder",
                     {{"headers", {"x-key"}},
                      {"query", {"k"}},
                      {"body", {"/a/0"}},
                      {"path", true},
                      {"variable", "A_KEY"}}}};
  auto parsed = parse_binding(rule);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  EXPECT_TRUE(parsed->by_placeholder);
  EXPECT_EQ(write_binding(*parsed), rule);
}

TEST(Binding, WhatIsWrongIsRefused) {
  std::vector<json::object> all{{{"host", "a b"}},
                                {{"host", "a"}, {"prot", 1}},
                                {{"host", "a"}, {"port", 0}},
                                {{"host", "a"}, {"path", "v1"}},
                                {{"host", "a"}, {"path", "/a/../b"}},
                                {{"host", "a"}, {"placeholder", json::object()}},
                                {{"host", "a"}, {"placeholder", {{"headers", {"a b"}}}}},
                                {{"host", "a"}, {"placeholder", {{"body", {"a"}}}}},
                                {{"host", "a"}, {"placeholder", {{"path", true}, {"variable", "1A"}}}},
                                {{"host", "a"}, {"placeholder", {{"path", true}, {"variable", "A=B"}}}}};
  for (const auto& rule : all) EXPECT_FALSE(parse_binding(rule).ok()) << rule;
}

}  // namespace
}  // namespace atl::gateway::vault
