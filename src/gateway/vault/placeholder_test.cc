// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/placeholder.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "gateway/vault/credential_for_test.h"
#include "gateway/vault/sealing.h"

namespace atl::gateway::vault {
namespace {

const Locked& root() {
  static const Locked kRoot = Locked::copy_of(std::string(kKeyBytes, 'r'));
  return kRoot;
}
const std::string kOurs = placeholder_of(root(), "sbx1", "sec_1");

std::vector<Resolvable> resolvable(Places places, std::string_view value = "real\"value") {
  static const CredentialPtr kNobody = credential({{"type", "bearer"}}, "x");
  return {{kOurs, kNobody, value, std::move(places)}};
}

TEST(Placeholder, IsOneForEachSandboxAndCredentialAndTheSameAgain) {
  EXPECT_EQ(kOurs.size(), kPlaceholderBytes);
  EXPECT_EQ(kOurs, placeholder_of(root(), "sbx1", "sec_1"));
  EXPECT_NE(kOurs, placeholder_of(root(), "sbx2", "sec_1"));
  EXPECT_NE(kOurs, placeholder_of(root(), "sbx1", "sec_2"));
  EXPECT_NE(kOurs, placeholder_of(Locked::copy_of(std::string(kKeyBytes, 'q')), "sbx1", "sec_1"));
  EXPECT_NE(placeholder_of(root(), "a", "bc"), placeholder_of(root(), "ab", "c"));
}

TEST(Placeholder, IsResolvedInDeclaredHeadersAlsoInsideBasic) {
  auto head = request(
      "/", {{"x-key", "k=" + kOurs + "!"}, {"authorization", "Basic " + base64_encode("u:" + kOurs)}});
  ASSERT_TRUE(resolve_head(head, resolvable({.headers = {"x-key", "authorization"}})).ok());
  EXPECT_EQ(all_of(head.headers, "x-key"), "k=real\"value!");
  EXPECT_EQ(all_of(head.headers, "authorization"), "Basic " + base64_encode("u:real\"value"));
}

TEST(Placeholder, IsResolvedInDeclaredQueryKeysAndInThePath) {
  auto head = request("/bot" + kOurs + "/send?a=1&key=" + kOurs);
  ASSERT_TRUE(resolve_head(head, resolvable({.query = {"key"}, .path = true})).ok());
  EXPECT_EQ(head.target, "/botreal%22value/send?a=1&key=real%22value");
}

// A value may be a thousand times as long as what stands for it.
TEST(Placeholder, ManyInOneHeadOrBodyAreRefused) {
  std::string many;
  for (std::size_t i = 0; i <= kMostReplaced; ++i) many += kOurs;
  auto head = request("/", {{"x-key", many}});
  EXPECT_EQ(resolve_head(head, resolvable({.headers = {"x-key"}})).error().word(), "placeholder_too_often");
  auto spread = request("/?key=" + kOurs, {{"x-key", many.substr(kPlaceholderBytes)}});
  EXPECT_FALSE(resolve_head(spread, resolvable({.headers = {"x-key"}, .query = {"key"}})).ok());
  auto all = resolvable({.body = {""}});
  BodyResolver body(all, BodyResolver::Form::kText);
  std::string out;
  EXPECT_EQ(body.feed(many, out).error().word(), "placeholder_too_often");
}

TEST(Placeholder, Report65_OneThatIsNotResolvedNeverGoesOut) {
  auto other = placeholder_of(root(), "sbx2", "sec_1");
  auto declared = resolvable({.headers = {"x-key"}, .query = {"key"}});
  std::vector<http::RequestHead> all{
      request("/", {{"x-other", kOurs}}),                                         // another header
      request("/", {{"x-key", other}}),                                           // of another sandbox
      request("/", {{"authorization", "Basic " + base64_encode("u:" + kOurs)}}),  // hidden in Basic
      request("/", {{"proxy-authorization", "basic  " + base64_encode(other)}}),  //
      request("/", {{kOurs, "x"}}),                                               // the name of a header
      request("/" + kOurs),                                                       // the path
      request("/?other=" + kOurs),                                                // another key
      request("/?" + kOurs + "=1"),                                               //
      request("/?key=%61" + kOurs.substr(1)),                                     // escaped
  };
  all.push_back(request());
  all.back().authority = kOurs + ".example.com";
  for (auto& head : all) {
    auto done = resolve_head(head, declared);
    ASSERT_FALSE(done.ok()) << head.target;
    EXPECT_EQ(done.error().word(), "placeholder_unresolved");
    EXPECT_EQ(done.error().code(), Code::kDenied);
  }
  EXPECT_FALSE(refuse_placeholders("x " + kOurs, "a trailer").ok());
  EXPECT_TRUE(refuse_placeholders("atollph and no more", "a trailer").ok());
}

TEST(Placeholder, WithoutABindingForTheHostItIsRefused) {
  auto head = request("/", {{"x-key", kOurs}});
  EXPECT_EQ(resolve_head(head, {}).error().word(), "placeholder_unresolved");
}

TEST(Placeholder, AValueWithALineBreakIsRefused) {
  auto head = request("/", {{"x-key", kOurs}});
  auto done = resolve_head(head, resolvable({.headers = {"x-key"}}, "a\r\nx-evil: 1"));
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().word(), "invalid_secret");
  EXPECT_EQ(done.error().message().find("evil"), std::string::npos);
}

// Through the resolver in parts of `step` bytes; "denied" when it refuses.
std::string through(const std::string& body, const std::vector<Resolvable>& all, BodyResolver::Form form,
                    std::size_t step) {
  BodyResolver resolver(all, form);
  std::string out;
  for (std::size_t at = 0; at < body.size(); at += step) {
    if (!resolver.feed(std::string_view(body).substr(at, step), out).ok()) return "denied";
  }
  EXPECT_TRUE(resolver.finish(out).ok());
  return out;
}

TEST(BodyPlaceholder, IsResolvedHoweverTheBodyIsCut) {
  const auto body = "aat atoll " + kOurs + "atollph12" + kOurs + " atollp";
  for (std::size_t step = 1; step <= body.size(); ++step) {
    EXPECT_EQ(through(body, resolvable({.body = {""}}), BodyResolver::Form::kText, step),
              "aat atoll real\"valueatollph12real\"value atollp")
        << step;
  }
}

TEST(BodyPlaceholder, IsResolvedOnlyAtItsJsonPointer) {
  auto json = [](const std::string& a, const std::string& b) {
    return R"({ "list" : [1, {"k": "no"}, {"k":"x )" + a + R"("}], "other": ")" + b +
           R"(", "e\u0073c/": null })";
  };
  auto all = resolvable({.body = {"/list/2/k"}});
  for (std::size_t step : {1, 2, 7, 1000}) {
    EXPECT_EQ(through(json(kOurs, "x"), all, BodyResolver::Form::kJson, step), json("real\\\"value", "x"));
    EXPECT_EQ(through(json("x", kOurs), all, BodyResolver::Form::kJson, step), "denied");
  }
  EXPECT_EQ(through("{\"" + kOurs + "\": 1}", all, BodyResolver::Form::kJson, 3), "denied");
  EXPECT_EQ(through("plain " + kOurs, all, BodyResolver::Form::kText, 3), "denied");
}

TEST(BodyPlaceholder, EscapedKeysAreWhatTheyMean) {
  auto all = resolvable({.body = {"/a~1b/c"}});
  EXPECT_EQ(through(R"({"a/b":{"\u0063":")" + kOurs + "\"}}", all, BodyResolver::Form::kJson, 1),
            R"({"a/b":{"\u0063":"real\"value"}})");
  // A quote inside a key does not end it.
  EXPECT_EQ(through(R"({"a/b\"":{"c":")" + kOurs + "\"}}", all, BodyResolver::Form::kJson, 1), "denied");
}

TEST(BodyPlaceholder, Report65_OfAnotherSandboxIsRefusedAndWhatOnlyLooksAlikeGoesOn) {
  auto other = placeholder_of(root(), "sbx2", "sec_1");
  EXPECT_EQ(through("x" + other, resolvable({.body = {""}}), BodyResolver::Form::kText, 5), "denied");
  EXPECT_EQ(through("x" + other, {}, BodyResolver::Form::kText, 5), "denied");
  auto alike = "atollph" + std::string(31, 'a') + "Z";
  EXPECT_EQ(through(alike, {}, BodyResolver::Form::kText, 5), alike);
}

TEST(BodyPlaceholder, ACompressedBodyIsRefusedWhereOneCouldStand) {
  auto head = request("/", {{"content-encoding", "gzip"}});
  head.has_body = true;
  EXPECT_EQ(check_encoding(head, resolvable({.body = {"/a"}})).error().word(), "placeholder_in_encoded_body");
  EXPECT_TRUE(check_encoding(head, resolvable({.headers = {"x"}})).ok());
  head.headers.set("content-encoding", "Identity");
  EXPECT_TRUE(check_encoding(head, resolvable({.body = {"/a"}})).ok());
}

}  // namespace
}  // namespace atl::gateway::vault
