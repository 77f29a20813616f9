// SPDX-License-Identifier: Apache-2.0
#include "ingress/target.h"

#include <gtest/gtest.h>

namespace atl::ingress {
namespace {

constexpr char kId[] = "i0123456789abcdefghij";
constexpr char kOther[] = "izzzzzzzzzzzzzzzzzzzz";

http::RequestHead request(std::string authority, http::Headers headers = {}, std::string target = "/") {
  http::RequestHead head;
  head.method = "GET";
  head.authority = std::move(authority);
  head.headers = std::move(headers);
  head.target = std::move(target);
  return head;
}

http::Headers pair(std::string id, std::string port) {
  return {{"e2b-sandbox-id", std::move(id)}, {"e2b-sandbox-port", std::move(port)}};
}

// "id:port", "-" for the API, "bad" for a refusal, "sig" for a signed URL.
std::string routed(const http::RequestHead& head) {
  auto routing = route_request(head, "atoll.localhost");
  if (auto* target = std::get_if<Target>(&routing))
    return target->sandbox + ":" + std::to_string(target->port);
  if (std::holds_alternative<BadTarget>(routing)) return "bad";
  return std::holds_alternative<SignedFile>(routing) ? "sig" : "-";
}

const std::string kTo8080 = std::string(kId) + ":8080";

TEST(Route, TakesTheSandboxFromTheFirstLabel) {
  EXPECT_EQ(routed(request(fmt::format("8080-{}.atoll.localhost:7400", kId))), kTo8080);
  EXPECT_EQ(routed(request(fmt::format("8080-{}.atoll.localhost", kId))), kTo8080);
  EXPECT_EQ(routed(request(fmt::format("8080-{}.ATOLL.localhost.", kId))), kTo8080);
  EXPECT_EQ(routed(request(fmt::format("8080-{}-client7.atoll.localhost", kId))), kTo8080);
}

TEST(Route, AHostThatNamesASandboxBeatsTheHeaders) {
  EXPECT_EQ(routed(request(fmt::format("8080-{}.atoll.localhost", kId), pair(kOther, "49983"))), kTo8080);
}

TEST(Route, TakesHeadersForLocalhostAddressesAndTheSandboxName) {
  for (const char* host : {"localhost", "localhost:7400", "127.0.0.1:7400", "[::1]:7400", "10.1.2.3",
                           "sandbox.atoll.localhost:7400", "SANDBOX.example.com", "2130706433"}) {
    EXPECT_EQ(routed(request(host, pair(kId, "8080"))), kTo8080) << host;
  }
  EXPECT_EQ(routed(request("localhost", pair(std::string(kId) + "-0badf00d", "8080"))), kTo8080);
}

TEST(Route, IgnoresHeadersOnEveryOtherHost) {
  for (const char* host : {"api.atoll.localhost", "atoll.localhost", "example.com", "evil-atoll.localhost",
                           "xatoll.localhost"}) {
    EXPECT_EQ(routed(request(host, pair(kId, "8080"))), "-") << host;
  }
}

TEST(Route, LeavesTheApiAlone) {
  for (const char* host :
       {"localhost", "127.0.0.1:7400", "api.atoll.localhost:7400", "atoll.localhost", ""}) {
    EXPECT_EQ(routed(request(host)), "-") << host;
  }
}

TEST(Route, RefusesHostsUnderTheDomainThatNameNoSandbox) {
  for (const char* host :
       {"www.atoll.localhost", "8080.atoll.localhost", "8080-.atoll.localhost", "-x.atoll.localhost",
        "a.8080-i0123456789abcdefghij.atoll.localhost", "8080-a%00.atoll.localhost"}) {
    EXPECT_EQ(routed(request(host)), "bad") << host;
  }
}

TEST(Route, RefusesMalformedHosts) {
  for (const char* host :
       {"localhost:", "localhost:0", "localhost:99999", "localhost:7400x", "[::1", "[::1]x", ":80", "."}) {
    EXPECT_EQ(routed(request(host, pair(kId, "80"))), "bad") << host;
  }
}

TEST(Route, ReadsPortsStrictly) {
  for (const char* port : {"02280", "+2280", "-1", "0x8e8", "67816", "65536", "0", "", " 80", "80 ", "8０",
                           "1e3", "4294967376"}) {
    EXPECT_EQ(routed(request("localhost", pair(kId, port))), "bad") << port;
    EXPECT_EQ(routed(request(fmt::format("{}-{}.atoll.localhost", port, kId))), "bad") << port;
  }
  EXPECT_EQ(parse_port("65535"), 65535);
  EXPECT_EQ(parse_port("1"), 1);
}

TEST(Route, RefusesRepeatedOrMissingHeaders) {
  auto twice = pair(kId, "80");
  twice.add("e2b-sandbox-id", kOther);
  EXPECT_EQ(routed(request("localhost", twice)), "bad");
  auto ports = pair(kId, "80");
  ports.add("e2b-sandbox-port", "81");
  EXPECT_EQ(routed(request("localhost", ports)), "bad");
  EXPECT_EQ(routed(request("localhost", {{"e2b-sandbox-id", kId}})), "bad");
  EXPECT_EQ(routed(request("sandbox.atoll.localhost")), "bad");
}

TEST(Route, RefusesIdsWithOtherCharacters) {
  for (const char* id : {"", "../x", "a b", "<script>", "a/b", "a\tb"}) {
    EXPECT_EQ(routed(request("localhost", pair(id, "80"))), "bad") << id;
  }
  EXPECT_EQ(routed(request("localhost", pair(std::string(65, 'a'), "80"))), "bad");
  EXPECT_EQ(routed(request("localhost", pair("debug_sandbox_id", "80"))), "debug_sandbox_id:80");
}

TEST(Route, FindsSignedUrlsOnlyWhereNothingNamesASandbox) {
  auto target = "/files?path=a%20b.txt&username=u&signature=v1_x%2By&signature_expiration=12";
  auto routing = route_request(request("localhost:7400", {}, target), "atoll.localhost");
  auto& file = std::get<SignedFile>(routing);
  EXPECT_EQ(file.path, "a b.txt");
  EXPECT_EQ(file.operation, "read");
  EXPECT_EQ(file.user, "u");
  EXPECT_EQ(file.expiration, "12");
  EXPECT_EQ(file.signature, "v1_x+y");
  EXPECT_EQ(routed(request("localhost", pair(kId, "80"), target)), std::string(kId) + ":80");
  EXPECT_EQ(routed(request("api.atoll.localhost", {}, target)), "-");
  EXPECT_EQ(routed(request("localhost", {}, "/files?path=a")), "-");
  EXPECT_EQ(routed(request("localhost", {}, "/v2/sandboxes?signature=v1_x")), "-");
  auto upload = request("localhost", {}, target);
  upload.method = "POST";
  EXPECT_EQ(std::get<SignedFile>(route_request(upload, "atoll.localhost")).operation, "write");
}

TEST(InternalPath, IsFoundHoweverItIsSpelled) {
  for (const char* path :
       {"/init",     "/init/",      "//init",    "/./init",   "/x/../init", "/%69nit",
        "/INIT",     "/init;a=b",   "/%2e/init", "/%2Finit",  "\\init",     "/%5cinit",
        "/%2569nit", "/%252569nit", "/freeze",   "/activity", "/unfreeze",  "/collapse",
        "/fsfreeze", "/fsthaw",     "/../init",  "/init/x",   "/init%20",   "/x/%2e%2e/freeze"}) {
    EXPECT_TRUE(is_internal_path(path)) << path;
  }
  for (const char* path :
       {"/", "/health", "/files", "/process.Process/Start", "/initial", "/x/init", "/%zz", ""}) {
    EXPECT_FALSE(is_internal_path(path)) << path;
  }
}

TEST(GuestPath, IsMadeAnewFromItsSegments) {
  EXPECT_EQ(normal_guest_path("/process.Process/Start"), "/process.Process/Start");
  EXPECT_EQ(normal_guest_path("//a/./b/../c/"), "/a/c");
  EXPECT_EQ(normal_guest_path("/a%20b"), "/a%20b");
  EXPECT_EQ(normal_guest_path("/"), "/");
  EXPECT_EQ(normal_guest_path("/../.."), "/");
  EXPECT_EQ(normal_guest_path("/%zz"), std::nullopt);
  EXPECT_EQ(normal_guest_path("/a%00"), std::nullopt);
}

}  // namespace
}  // namespace atl::ingress
