// SPDX-License-Identifier: Apache-2.0
#include "gateway/approvals/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atl::gateway {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Shown {
  http::RequestHead head;
  http::Headers trailers;
  std::string body;
  ExactRequest request;

  explicit Shown(std::string target = "/v1/pay", std::string text = "") : body(std::move(text)) {
    head.method = "POST";
    head.target = std::move(target);
    request = {"t", "i1", 1, "", true, "pay.example:443", &head, body, &trailers};
  }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;
  std::string fingerprint() {
    request.body = body;
    return fingerprint_of(request);
  }
};

TEST(Fingerprint, IsOfEverythingThatAPersonSaysYesTo) {
  Shown base("/v1/pay?to=bob", "{}");
  std::string first = base.fingerprint();
  EXPECT_EQ(Shown("/v1/pay?to=bob", "{}").fingerprint(), first);
  EXPECT_NE(Shown("/v1/pay?to=eve", "{}").fingerprint(), first);
  EXPECT_NE(Shown("/v1/pay?to=bob", "{ }").fingerprint(), first);
  auto changed = [&](auto change) {
    Shown other("/v1/pay?to=bob", "{}");
    change(other);
    return other.fingerprint() != first;
  };
  EXPECT_TRUE(changed([](Shown& s) { s.head.method = "PUT"; }));
  EXPECT_TRUE(changed([](Shown& s) { s.request.authority = "pay.example:8443"; }));
  EXPECT_TRUE(changed([](Shown& s) { s.request.secure = false; }));
  EXPECT_TRUE(changed([](Shown& s) { s.request.tenant = "u"; }));
  EXPECT_TRUE(changed([](Shown& s) { s.request.sandbox = "i2"; }));
  EXPECT_TRUE(changed([](Shown& s) { s.request.generation = 2; }));
  EXPECT_TRUE(changed([](Shown& s) { s.request.label = "git"; }));
  EXPECT_TRUE(changed([](Shown& s) { s.head.headers.add("x-http-method-override", "DELETE"); }));
  EXPECT_TRUE(changed([](Shown& s) { s.head.headers.add("content-encoding", "gzip"); }));
  EXPECT_TRUE(changed([](Shown& s) { s.head.headers.add("upgrade", "websocket"); }));
  for (const char* field : {"x-amz-target", "x-amz-copy-source", "soapaction", "destination", "if-match",
                            "range", "authorization", "cookie", "x_http_method_override"})
    EXPECT_TRUE(changed([&](Shown& s) { s.head.headers.add(field, "1"); })) << field;
  EXPECT_TRUE(changed([](Shown& s) { s.trailers.add("x-last", "1"); }));
  // A name goes out as it is spelled, and servers differ in what they make of it.
  EXPECT_TRUE(changed([](Shown& s) { s.head.headers.add("x_request_id", "1"); }));
  // What differs from one try to the next does not.
  for (const char* field :
       {"x-stainless-retry-count", "traceparent", "user-agent", "date", "sec-websocket-key"})
    EXPECT_FALSE(changed([&](Shown& s) { s.head.headers.add(field, "1"); })) << field;
  Shown one, other;
  one.head.headers = {{"a", "1"}, {"b", "2"}};
  other.head.headers = {{"b", "2"}, {"a", "1"}};
  EXPECT_EQ(one.fingerprint(), other.fingerprint());
}

TEST(Redacted, LeavesOutWhatLooksLikeASecret) {
  for (const char* secret :
       {"sk-ant-api03-xyzxyz", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "AKIAIOSFODNN7EXAMPLE",
        "atoll_st_abcdefgh", "4f9a1b7e6c2d4a8891aa72f0c3d1e5b9"}) {
    EXPECT_THAT(redacted(fmt::format("/x/{}/y", secret)), Not(HasSubstr(secret)));
    EXPECT_THAT(redacted(fmt::format("a {} b", secret)), HasSubstr("a [redacted] b"));
  }
  EXPECT_EQ(redacted("/v1?api_key=abc&q=1"), "/v1?api_key=[redacted]&q=1");
  EXPECT_EQ(redacted(R"({"Password": "a\"b c", "n": 1})"), R"({"Password": "[redacted]", "n": 1})");
  EXPECT_EQ(redacted("client_secret=x+y;z"), "client_secret=[redacted];z");
  EXPECT_EQ(redacted("Authorization: Bearer abc\nnext"), "Authorization: [redacted]\nnext");
  EXPECT_EQ(redacted(R"({"token":"unfinished)"), R"({"token":"[redacted]")");
}

TEST(Redacted, LeavesWhatAPersonMustSee) {
  for (const char* text : {"/v1/threads/123456789012/runs", "/o/3f2504e0-4f89-11d3-9a0c-0305e82c3301",
                           R"({"max_tokens":1024,"model":"claude"})", "delete from customers where id = 7",
                           "/repos/owner/a-rather-long-repository-name/pulls"})
    EXPECT_EQ(redacted(text), text);
}

TEST(Redacted, PlaysNoTricksOnScreens) {
  EXPECT_EQ(redacted("a\x1b[2Jb\rc\x7f"), "a?[2Jb?c?");
  EXPECT_EQ(redacted("pay \xe2\x80\xae"
                     "eve"),
            "pay ?eve");
  EXPECT_EQ(redacted("\xff\xc2\x9b"
                     "31m grüße"),
            "??31m grüße");
}

TEST(Summary, SaysWhatGoesWhereAndIsShort) {
  Shown shown("/v1/pay?token=abc", "{\"amount\": 5}\nPOST https://good.example/");
  shown.head.headers.add("content-type", "application/json");
  shown.head.headers.add("cookie", "id=1; name=bob");
  shown.request.body = shown.body;
  std::string text = summary_of(shown.request);
  EXPECT_THAT(text, HasSubstr("POST https://pay.example/v1/pay?token=[redacted]\n"));
  EXPECT_THAT(text, HasSubstr("content-type: application/json\n"));
  EXPECT_THAT(text, HasSubstr("\n| {\"amount\": 5}\n| POST https://good.example/\n"));
  EXPECT_THAT(text, HasSubstr("\ncookie: [redacted]\n"));
  EXPECT_THAT(text, Not(HasSubstr("bob")));
  EXPECT_THAT(text, Not(HasSubstr("not shown")));
  Shown large("/" + std::string(100'000, 'a'), std::string(1 << 20, 'b'));
  large.request.body = large.body;
  EXPECT_LE(summary_of(large.request).size(), kMaxSummary + 3);
  EXPECT_LE(shown_url(large.request).size(), kMaxShownUrl + 3);
  Shown binary("/", std::string("\0\1", 2));
  binary.request.body = binary.body;
  EXPECT_THAT(summary_of(binary.request), HasSubstr("(not text)"));
}

TEST(Summary, FieldsDoNotPushTheBodyOutAndCutsAreSaid) {
  Shown shown("/", "the amount\n(the rest is not shown)");
  for (int i = 0; i < 100; ++i) shown.head.headers.add(fmt::format("x-{}", i), std::string(1000, '.'));
  shown.trailers.add("x-last", "1");
  shown.request.body = shown.body;
  std::string text = summary_of(shown.request);
  EXPECT_THAT(text, HasSubstr("\n(89 more fields are not shown)\n"));
  EXPECT_THAT(text, HasSubstr("\n| the amount\n| (the rest is not shown)\n"));
  EXPECT_FALSE(text.ends_with("\n(the rest is not shown)\n"));
  Shown trailer("/");
  trailer.trailers.add("x-last", "1");
  EXPECT_THAT(summary_of(trailer.request), HasSubstr("\ntrailer x-last: 1\n"));
  for (const std::string& body : {std::string(3000, '.'), std::string(100, '\n')}) {
    Shown cut_body("/", body);
    cut_body.request.body = cut_body.body;
    EXPECT_TRUE(summary_of(cut_body.request).ends_with("\n(the rest is not shown)\n"));
  }
}

TEST(Summary, OnlyAWebSocketGoesOnBothWays) {
  Shown shown;
  shown.head.headers.add("upgrade", "h2c");
  EXPECT_THAT(summary_of(shown.request), Not(HasSubstr("WebSocket")));
  shown.head.headers.set("upgrade", "websocket");
  EXPECT_THAT(summary_of(shown.request), HasSubstr("opens a WebSocket"));
}

// A secret that the end of what is looked at cuts in two would be too short to be known.
TEST(Summary, CutsNoSecretInTwo) {
  std::string secret = "4f9a1b7e6c2d4a8891aa72f0c3d1e5b9";
  for (std::size_t before = 8150; before < 8200; ++before) {
    std::string text;
    while (text.size() < 8000) text += std::string(78, 'a') + "1 ";  // each is shown as one short word
    text.resize(before, ' ');
    Shown shown("/", text + secret + std::string(9000, '.'));
    shown.request.body = shown.body;
    EXPECT_THAT(summary_of(shown.request), Not(HasSubstr(secret.substr(0, 8)))) << before;
  }
}

}  // namespace
}  // namespace atl::gateway
