// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/apply.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/text.h"
#include "gateway/vault/credential_for_test.h"
#include "gateway/vault/exchange.h"
#include "gateway/vault/sealing.h"

namespace atl::gateway::vault {
namespace {

constexpr WallTime kNow{1'440'938'160'000};  // 2015-08-30T12:36:00Z

// The request after the credential has gone into it.
http::RequestHead injected(const CredentialPtr& credential, http::RequestHead request,
                           const Locked* token = nullptr) {
  auto changes = apply({*credential, request, token, "", kNow});
  EXPECT_TRUE(changes.ok()) << changes.error().message();
  EXPECT_TRUE(inject(request, *changes).ok());
  return request;
}

TEST(Apply, WhatTheSandboxAuthorizesItselfWithGoesOnlyForACredential) {
  http::RequestHead asked = request("/", {{"authorization", "Basic mine"}, {"x-note", "old"}});
  EXPECT_TRUE(inject(asked, {}).ok());
  Changes note;
  note.headers.push_back({"x-note", Secret("new")});
  EXPECT_TRUE(inject(asked, note).ok());
  EXPECT_EQ(all_of(asked.headers, "authorization"), "Basic mine");
  EXPECT_EQ(all_of(asked.headers, "x-note"), "new");
}

TEST(Apply, EachKindSetsItsHeader) {
  auto header = credential({{"type", "header"}, {"name", "X-Api-Key"}}, "k1");
  EXPECT_EQ(all_of(injected(header, request()).headers, "x-api-key"), "k1");
  auto prefixed = credential({{"type", "header"}, {"name", "authorization"}, {"prefix", "token "}}, "k1");
  EXPECT_EQ(all_of(injected(prefixed, request()).headers, "authorization"), "token k1");
  auto bearer = credential({{"type", "bearer"}}, "k1");
  EXPECT_EQ(all_of(injected(bearer, request()).headers, "authorization"), "Bearer k1");
  auto basic = credential({{"type", "basic"}, {"username", "Aladdin"}}, "open sesame");
  EXPECT_EQ(all_of(injected(basic, request()).headers, "authorization"),
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
}

TEST(Apply, AMintedKindTakesItsTokenAndNothingElse) {
  auto oauth = credential({{"type", "oauth2"}, {"token_url", "https://a/t"}, {"client_id", "c"}},
                          R"({"client_secret":"shh"})");
  EXPECT_FALSE(apply({*oauth, request(), nullptr, "", kNow}).ok());
  auto token = Locked::copy_of("access");
  EXPECT_EQ(all_of(injected(oauth, request(), &token).headers, "authorization"), "Bearer access");
}

TEST(Apply, GitOverHttpsGetsTheTokenOfAnAppAsBasic) {
  auto app = credential({{"type", "github_app"}, {"app_id", "1"}, {"installation_id", "2"}}, "pem");
  auto token = Locked::copy_of("ghs_x");
  auto git = request("/o/r.git/info/refs?service=git-upload-pack");
  git.authority = "github.com";
  EXPECT_EQ(all_of(injected(app, git, &token).headers, "authorization"),
            "Basic " + base64_encode("x-access-token:ghs_x"));
  EXPECT_EQ(all_of(injected(app, request(), &token).headers, "authorization"), "Bearer ghs_x");
}

TEST(Inject, RemovesWhatItSetsInEverySpelling) {
  auto header = credential(
      {{"type", "header"}, {"name", "x-api-key"}, {"also_remove", {"OpenAI-Organization"}}}, "real");
  auto sent = injected(header, request("/", {{"x-api-key", "fake1"},
                                             {"x-api-key", "fake2"},
                                             {"x_api_key", "fake3"},
                                             {"x-api_key", "fake4"},
                                             {"authorization", "Bearer fake5"},
                                             {"proxy-authorization", "Basic fake6"},
                                             {"openai-organization", "fake7"},
                                             {"accept", "*/*"}}));
  std::string all;
  for (const auto& one : sent.headers) all += one.name + ": " + one.value + "\n";
  EXPECT_EQ(all, "accept: */*\nx-api-key: real\n");
}

TEST(Inject, HostileInput_ConnectionNamesTheInjectedHeader) {
  auto header = credential({{"type", "header"}, {"name", "x-api-key"}}, "real");
  auto sent = injected(header, request("/", {{"connection", "close, X-Api-Key"}}));
  EXPECT_EQ(all_of(sent.headers, "connection"), "close");
  sent = injected(header,
                  request("/", {{"connection", "x-api-key"}, {"connection", "X_API_KEY , authorization"}}));
  EXPECT_EQ(all_of(sent.headers, "connection"), "");
}

TEST(Inject, HostileInput_TheInjectedHeaderComesAgainAsATrailer) {
  auto header = credential({{"type", "header"}, {"name", "x-api-key"}}, "real");
  auto asked = request("/", {{"trailer", "expires, X-Api-Key"}});
  auto changes = apply({*header, asked, nullptr, "", kNow});
  EXPECT_EQ(inject(asked, *changes).error().word(), "credential_in_trailer");
}

TEST(Inject, AQueryKeyIsReplacedInEverySpelling) {
  auto query = credential({{"type", "query"}, {"key", "api_key"}}, "a&b=c");
  auto sent = injected(query, request("/p?x=1&api_key=f1&API_KEY=f2&%61pi_key=f3;api_key=f4&api_key&y=2"));
  EXPECT_EQ(sent.target, "/p?x=1&y=2&api_key=a%26b%3Dc");
  EXPECT_EQ(injected(query, request("/p")).target, "/p?api_key=a%26b%3Dc");
}

TEST(Apply, AValueWithALineBreakGoesIntoNoHeader) {
  auto bearer = credential({{"type", "bearer"}}, "a\r\nx-evil: 1");
  auto changes = apply({*bearer, request(), nullptr, "", kNow});
  ASSERT_FALSE(changes.ok());
  EXPECT_EQ(changes.error().word(), "invalid_secret");
  EXPECT_EQ(changes.error().message().find("evil"), std::string::npos);
  auto minted = Locked::copy_of("a\nb");
  auto oauth = credential({{"type", "oauth2"}, {"token_url", "https://a/t"}, {"client_id", "c"}}, "{}");
  EXPECT_FALSE(apply({*oauth, request(), &minted, "", kNow}).ok());
}

CredentialPtr aws(boost::json::object more = {},
                  std::string_view secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY") {
  boost::json::object config{{"type", "aws_sigv4"}, {"access_key_id", "AKIDEXAMPLE"}};
  for (const auto& [key, value] : more) config[key] = value;
  return credential(config, secret);
}

TEST(Aws, SignsAnewWhatWasSignedInsideWithAFakeKey) {
  auto asked = request("/?Action=ListUsers&Version=2010-05-08",
                       {{"content-type", "application/x-www-form-urlencoded; charset=utf-8"},
                        {"x-amz-date", "20200101T000000Z"},
                        {"authorization",
                         "AWS4-HMAC-SHA256 Credential=FAKE/20200101/us-east-1/iam/aws4_request, "
                         "SignedHeaders=host;x-amz-date, Signature=00"}});
  asked.method = "GET";
  asked.authority = "iam.amazonaws.com";
  auto sent = injected(aws(), asked);
  EXPECT_EQ(all_of(sent.headers, "x-amz-date"), "20150830T123600Z");
  EXPECT_EQ(all_of(sent.headers, "authorization"),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, "
            "SignedHeaders=content-type;host;x-amz-date, "
            "Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7");
}

TEST(Aws, SignsASessionTokenAndReplacesThatOfTheSandbox) {
  auto session = aws({{"region", "eu-west-1"}, {"service", "s3"}},
                     R"({"secret_access_key":"k","session_token":"real-session"})");
  auto sent =
      injected(session, request("/b/k", {{"x-amz-security-token", "fake"}, {"x-amz-acl", "private"}}));
  EXPECT_EQ(all_of(sent.headers, "x-amz-security-token"), "real-session");
  auto authorization = all_of(sent.headers, "authorization");
  EXPECT_NE(authorization.find(
                "SignedHeaders=host;x-amz-acl;x-amz-content-sha256;x-amz-date;x-amz-security-token,"),
            std::string::npos)
      << authorization;
}

TEST(Aws, StreamsToS3UnsignedAndHashesForOthers) {
  auto s3 = aws({{"region", "r"}, {"service", "s3"}});
  auto sqs = aws({{"region", "r"}, {"service", "sqs"}});
  auto body = request();
  body.has_body = true;
  EXPECT_FALSE(needs_body_hash(*s3, body));
  EXPECT_TRUE(needs_body_hash(*sqs, body));
  EXPECT_FALSE(needs_body_hash(*sqs, request()));
  EXPECT_EQ(all_of(injected(s3, body).headers, "x-amz-content-sha256"), "UNSIGNED-PAYLOAD");
  EXPECT_FALSE(apply({*sqs, body, nullptr, "", kNow}).ok());
  EXPECT_TRUE(apply({*sqs, body, nullptr, hex_encode(sha256("b")), kNow}).ok());
  body.headers.add("x-amz-content-sha256", hex_encode(sha256("b")));
  EXPECT_FALSE(needs_body_hash(*sqs, body));
  EXPECT_EQ(all_of(injected(s3, body).headers, "x-amz-content-sha256"), hex_encode(sha256("b")));
}

TEST(Aws, RefusesWhatItCannotSign) {
  auto s3 = aws({{"region", "r"}, {"service", "s3"}});
  auto chunked = request("/", {{"x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}});
  EXPECT_EQ(apply({*s3, chunked, nullptr, "", kNow}).error().word(), "aws_chunked_signature");
  auto trailer = request("/", {{"x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}});
  EXPECT_TRUE(apply({*s3, trailer, nullptr, "", kNow}).ok());
  EXPECT_EQ(apply({*s3, request("/k?X-Amz-Signature=00"), nullptr, "", kNow}).error().word(),
            "aws_presigned");
  EXPECT_EQ(apply({*aws(), request(), nullptr, "", kNow}).error().word(), "aws_scope_missing");
}

TEST(Apply, AJwtIsSignedAndGoesInAsItsToken) {
  auto key = std::string(32, 'k');
  auto jwt = credential(
      {{"type", "jwt"}, {"algorithm", "HS256"}, {"key_id", "k1"}, {"claims", {{"iss", "me"}}}}, key);
  EXPECT_FALSE(apply({*jwt, request(), nullptr, "", kNow}).ok());
  auto token = Locked::copy_of(sign_own(*jwt, kNow)->access.reveal());
  auto value = all_of(injected(jwt, request(), &token).headers, "authorization");
  ASSERT_TRUE(value.starts_with("Bearer "));
  auto parts = split(std::string_view(value).substr(7), '.');
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(*base64url_decode(parts[0]), R"({"alg":"HS256","typ":"JWT","kid":"k1"})");
  auto claims = boost::json::parse(*base64url_decode(parts[1])).as_object();
  EXPECT_EQ(claims["iss"].as_string(), "me");
  EXPECT_EQ(claims["iat"].as_int64(), kNow.ms / 1000);
  EXPECT_EQ(claims["exp"].as_int64(), kNow.ms / 1000 + 300);
}

TEST(Kinds, AreWrittenAsTheyWereRead) {
  std::vector<boost::json::object> all{
      {{"type", "plain"}},
      {{"type", "bearer"}, {"also_remove", {"x-key"}}},
      {{"type", "header"}, {"name", "x-key"}, {"prefix", "p "}},
      {{"type", "basic"}, {"username", "u"}},
      {{"type", "query"}, {"key", "k"}},
      {{"type", "aws_sigv4"}, {"access_key_id", "A"}, {"region", "r"}, {"service", "s"}},
      {{"type", "oauth2"},
       {"grant", "authorization_code"},
       {"token_url", "https://a/t"},
       {"client_id", "c"},
       {"authorize_url", "https://a/a"},
       {"redirect_uri", "http://localhost/cb"},
       {"scope", "s"},
       {"resource", "https://r"},
       {"client_auth", "none"}},
      {{"type", "oauth2"},
       {"grant", "device_code"},
       {"token_url", "https://a/t"},
       {"device_url", "https://a/d"},
       {"client_id", "c"},
       {"audience", "x"},
       {"client_auth", "body"}},
      {{"type", "tls_client"}, {"certificate_chain", "pem"}},
      {{"type", "github_app"},
       {"app_id", "1"},
       {"installation_id", "2"},
       {"api_url", "https://ghe.example/api/v3"}},
      {{"type", "jwt"},
       {"algorithm", "ES256"},
       {"key_id", "k"},
       {"claims", {{"iss", "i"}}},
       {"lifetime_s", 60}}};
  for (const auto& one : all) {
    auto config = parse_config(one);
    ASSERT_TRUE(config.ok()) << one << config.error().message();
    EXPECT_EQ(write_config(*config), one);
  }
}

TEST(Kinds, WhatIsWrongIsRefusedByItsName) {
  std::vector<std::pair<boost::json::object, std::string>> all{
      {{{"type", "nothing"}}, "type"},
      {{{"typ", "bearer"}}, "type"},
      {{{"type", "bearer"}, {"nmae", "x"}}, "nmae"},
      {{{"type", "header"}, {"name", "a b"}}, "name"},
      {{{"type", "header"}, {"name", "Host"}}, "name"},
      {{{"type", "header"}, {"name", "transfer-encoding"}}, "name"},
      {{{"type", "header"}, {"name", "x"}, {"prefix", "a\r\nb"}}, "prefix"},
      {{{"type", "basic"}, {"username", "a:b"}}, "username"},
      {{{"type", "oauth2"}, {"token_url", "http://a/t"}, {"client_id", "c"}}, "token_url"},
      {{{"type", "github_app"}, {"app_id", "1"}, {"installation_id", "../2"}}, "installation_id"},
      {{{"type", "jwt"}, {"algorithm", "none"}}, "algorithm"}};
  for (const auto& [config, field] : all) {
    auto parsed = parse_config(config);
    ASSERT_FALSE(parsed.ok()) << config;
    EXPECT_NE(parsed.error().message().find(field), std::string::npos) << parsed.error().message();
  }
}

}  // namespace
}  // namespace atl::gateway::vault
