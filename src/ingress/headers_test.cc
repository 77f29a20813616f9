// SPDX-License-Identifier: Apache-2.0
#include "ingress/headers.h"

#include <gtest/gtest.h>

#include "ingress/answers.h"

namespace atl::ingress {
namespace {

http::RequestHead client_request() {
  http::RequestHead head;
  head.method = "GET";
  head.target = "/a/../b?x=1";
  head.authority = "8080-i0123456789abcdefghij.atoll.localhost:7400";
  head.peer = "192.0.2.7:4711";
  head.headers.add("accept", "*/*");
  return head;
}

std::string value(const http::Headers& headers, std::string_view name) {
  return std::string(headers.find(name).value_or("(none)"));
}

TEST(GuestRequest, LeavesOutWhatIsNotTheServices) {
  auto head = client_request();
  for (const char* name :
       {"e2b-sandbox-id", "e2b-sandbox-port", "e2b-sandbox-anything", "e2b-traffic-access-token",
        "x-atoll-internal", "x-real-ip", "forwarded", "x-forwarded-user", "keep-alive", "te",
        "transfer-encoding", "proxy-authorization", "upgrade", "content-length", "named"}) {
    head.headers.add(name, "v");
  }
  head.headers.add("connection", "close, Named");
  control::Route route;
  auto out = guest_request(head, route, 8080);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->headers.size(), 4u);
  EXPECT_EQ(value(out->headers, "accept"), "*/*");
  EXPECT_EQ(out->target, "/a/../b?x=1");
}

TEST(GuestRequest, TellsServicesWhoAskedAndBelievesNoClientAboutIt) {
  auto head = client_request();
  head.headers.add("x-forwarded-for", "1.1.1.1");
  head.headers.add("x-forwarded-proto", "https");
  control::Route route;
  auto out = guest_request(head, route, 8080);
  EXPECT_EQ(out->headers.count("x-forwarded-for"), 1u);
  EXPECT_EQ(value(out->headers, "x-forwarded-for"), "192.0.2.7");
  EXPECT_EQ(value(out->headers, "x-forwarded-proto"), "http");
  EXPECT_EQ(value(out->headers, "x-forwarded-host"), head.authority);
  head.peer = "[2001:db8::1]:99";
  head.secure = true;
  out = guest_request(head, route, 8080);
  EXPECT_EQ(value(out->headers, "x-forwarded-for"), "2001:db8::1");
  EXPECT_EQ(value(out->headers, "x-forwarded-proto"), "https");
}

TEST(GuestRequest, KeepsTheAccessTokenAndNormalisesThePathForTheGuestDaemon) {
  auto head = client_request();
  head.headers.add("x-access-token", "t");
  head.headers.add("authorization", "Basic dTo=");
  control::Route route;
  route.mask_request_host = "masked.example";
  auto out = guest_request(head, route, 49983);
  EXPECT_EQ(value(out->headers, "x-access-token"), "t");
  EXPECT_EQ(value(out->headers, "authorization"), "Basic dTo=");
  EXPECT_EQ(value(out->headers, "x-forwarded-for"), "(none)");
  EXPECT_EQ(out->target, "/b?x=1");
  EXPECT_EQ(out->authority, head.authority);
  head.target = "/%zz";
  EXPECT_FALSE(guest_request(head, route, 49983));
}

TEST(GuestRequest, MasksTheHost) {
  control::Route route;
  EXPECT_EQ(guest_request(client_request(), route, 8080)->authority, client_request().authority);
  route.mask_request_host = "localhost:${PORT}";
  EXPECT_EQ(guest_request(client_request(), route, 8080)->authority, "localhost:8080");
}

TEST(GuestRequest, JoinsCookiesThatHttp2Split) {
  auto head = client_request();
  head.headers.add("cookie", "a=1");
  head.headers.add("cookie", "b=2");
  control::Route route;
  auto out = guest_request(head, route, 8080);
  EXPECT_EQ(out->headers.count("cookie"), 1u);
  EXPECT_EQ(value(out->headers, "cookie"), "a=1; b=2");
}

TEST(Upgrade, PassesOneProtocolAndNeverH2c) {
  auto head = client_request();
  head.headers.add("connection", "keep-alive, Upgrade");
  head.headers.add("upgrade", "websocket");
  EXPECT_EQ(upgrade_wanted(head, 8080), "websocket");
  EXPECT_EQ(upgrade_wanted(head, 49983), "");
  control::Route route;
  auto out = guest_request(head, route, 8080);
  EXPECT_EQ(value(out->headers, "connection"), "upgrade");
  EXPECT_EQ(value(out->headers, "upgrade"), "websocket");
  for (const char* protocol : {"h2c", "H2C", "h2c, websocket", "websocket, h2c"}) {
    head.headers.set("upgrade", protocol);
    head.headers.set("http2-settings", "AAMAAABk");
    EXPECT_EQ(upgrade_wanted(head, 8080), "") << protocol;
    EXPECT_EQ(guest_request(head, route, 8080)->headers.count("http2-settings"), 0u);
  }
}

TEST(ClientResponse, LeavesOutConnectionFieldsAndKeepsTheRest) {
  http::ResponseHead answer;
  answer.status = 201;
  answer.headers = {{"connection", "x-hop"},
                    {"x-hop", "1"},
                    {"keep-alive", "timeout=5"},
                    {"transfer-encoding", "chunked"},
                    {"content-length", "3"},
                    {"x-kept", "a"},
                    {"x-kept", "b"},
                    {"upgrade", "h2c"},
                    {"x-atoll-internal", "stolen"}};
  auto out = client_response(answer, 8080);
  EXPECT_EQ(out.status, 201);
  EXPECT_EQ(out.headers.size(), 3u);
  EXPECT_EQ(out.headers.count("x-kept"), 2u);
  EXPECT_EQ(value(out.headers, "content-length"), "3");
}

TEST(ClientResponse, CookiesStayWithTheirOwnHost) {
  http::ResponseHead answer;
  answer.headers = {{"set-cookie", "a=1; Path=/; DOMAIN=.atoll.localhost; HttpOnly"},
                    {"set-cookie", "domain=2; Secure"}};
  auto out = client_response(answer, 8080);
  std::vector<std::string> cookies;
  for (const auto& field : out.headers) cookies.push_back(field.value);
  EXPECT_EQ(cookies, (std::vector<std::string>{"a=1; Path=/; HttpOnly", "domain=2; Secure"}));
}

TEST(Answers, HaveTheTextsThatClientsMatch) {
  EXPECT_EQ(refusal_json(not_found("iabc")),
            R"({"sandboxId":"iabc","message":"The sandbox was not found","code":502})");
  EXPECT_EQ(
      refusal_json(port_closed("iabc", 80)),
      R"({"sandboxId":"iabc","message":"The sandbox is running but port is not open","port":80,"code":502})");
  EXPECT_EQ(refusal_json(bad_request("no \"x\"")), R"({"message":"no \"x\"","code":400})");
}

TEST(Answers, PagesEscapeWhatTheyShow) {
  auto page = refusal_page({502, "<b>&\"", "x<y", 80});
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  EXPECT_NE(page.find("&lt;b&gt;&amp;&quot;"), std::string::npos);
  EXPECT_NE(page.find("x&lt;y"), std::string::npos);
}

}  // namespace
}  // namespace atl::ingress
