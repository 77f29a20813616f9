// SPDX-License-Identifier: Apache-2.0
//
// What leaves for an upstream, and what comes back. Names of reports are those of the reference on gateways.
#include <gtest/gtest.h>

#include "gateway/upstream/answer_head.h"
#include "gateway/upstream/request_head.h"

namespace atl::gateway {
namespace {

http::RequestHead received(std::initializer_list<http::Header> headers = {}, std::string method = "GET",
                           std::string target = "/v1/x?y=1") {
  http::RequestHead head;
  head.method = std::move(method);
  head.target = std::move(target);
  head.authority = "whatever.example";
  head.headers = http::Headers(headers);
  return head;
}

RequestRules rules(std::string authority = "api.example:443") {
  RequestRules out{.authority = *parse_authority(authority, 443)};
  return out;
}

std::string_view word_of(const Result<http::RequestHead>& result) {
  return result.ok() ? std::string_view("ok") : result.error().word();
}

TEST(PrepareRequest, TheHostIsTheOneThatWasAgreedOn) {
  EXPECT_EQ(prepare_request(received(), rules())->authority, "api.example");
  EXPECT_EQ(prepare_request(received(), rules("api.example:8443"))->authority, "api.example:8443");
  EXPECT_EQ(prepare_request(received(), rules("[2001:db8::1]:443"))->authority, "[2001:db8::1]");
  auto plain = rules("api.example:80");
  plain.tls = false;
  EXPECT_EQ(prepare_request(received(), plain)->authority, "api.example");
}

// Reports 22 and 66ff: what is between the sandbox and us does not leave; proxy credentials least of all.
TEST(PrepareRequest, FieldsOfOneHopDoNotLeave) {
  auto head = prepare_request(received({{"connection", "close, X-Mine"},
                                        {"x-mine", "1"},
                                        {"keep-alive", "5"},
                                        {"transfer-encoding", "chunked"},
                                        {"proxy-authorization", "Basic x"},
                                        {"proxy-connection", "keep-alive"},
                                        {"proxy-anything", "1"},
                                        {"te", "trailers, gzip"},
                                        {"upgrade", "h2c"},
                                        {"http2-settings", "AAMAAABkAAQ"},
                                        {"host", "evil"},
                                        {"expect", "100-continue"},
                                        {"content-length", "7"},
                                        {"x-kept", "1"}}),
                              rules());
  ASSERT_TRUE(head.ok()) << head.error().message();
  EXPECT_EQ(head->headers.size(), 2u);
  EXPECT_EQ(head->headers.find("x-kept"), "1");
  EXPECT_EQ(head->headers.find("te"), "trailers");
}

TEST(PrepareRequest, ConnectionCannotNameWhatIsNotForOneHop) {
  std::vector<std::string> injected{"x-token"};
  for (auto name :
       {"X-Api-Key", "authorization", "Host", "content-length", "x-token", "X_Token", "x_api_key"}) {
    auto with = rules();
    with.injected = injected;
    auto result = prepare_request(received({{"connection", std::string("close, ") + name}}), with);
    EXPECT_EQ(word_of(result), "connection_refused") << name;
    EXPECT_EQ(refusal_status(result.error()), 400);
  }
}

TEST(PrepareRequest, TraceIsNotAllowed) {
  for (auto method : {"TRACE", "TRACK"}) {
    auto result = prepare_request(received({}, method), rules());
    EXPECT_EQ(word_of(result), "method_refused");
    EXPECT_EQ(refusal_status(result.error()), 405);
  }
}

TEST(PrepareRequest, APathHasOneMeaning) {
  for (auto path : {"/pub/../admin", "/a/./b", "/a//b", "/%2e%2e/admin", "/a%2fb", "/a%5Cb", "/a/..;x/b",
                    "/a;b=c", "/..", "/%252e%252e/", "/a%252f", "/%00", "/%zz", "/a%2", "/%2525"}) {
    EXPECT_EQ(word_of(prepare_request(received({}, "GET", path), rules())), "path_refused") << path;
    auto spelled = rules();
    spelled.as_spelled = true;
    auto kept = prepare_request(received({}, "GET", path), spelled);
    EXPECT_TRUE(kept.ok() && kept->target == path) << path;
  }
  for (auto path :
       {"/", "/v1/models", "/a%20b", "/a.b/..c/c..", "/%E2%82%AC", "/50%25", "/a%3Bb", "/x?q=//..%2f;"}) {
    EXPECT_TRUE(prepare_request(received({}, "GET", path), rules()).ok()) << path;
  }
}

// Report 19: whoever reads the answer must not pass on that the sandbox takes gzip.
TEST(PrepareRequest, AnAnswerThatIsReadIsAskedForPlain) {
  auto from = received({{"accept-encoding", "gzip, br"}, {"range", "bytes=5-9"}, {"if-range", "x"}});
  auto read = rules();
  read.read_answer = true;
  auto head = prepare_request(from, read);
  EXPECT_EQ(head->headers.find("accept-encoding"), "identity");
  EXPECT_EQ(head->headers.count("accept-encoding"), 1u);
  EXPECT_FALSE(head->headers.find("range"));
  EXPECT_FALSE(head->headers.find("if-range"));
  EXPECT_EQ(prepare_request(from, rules())->headers.find("accept-encoding"), "gzip, br");
}

http::RequestHead handshake() {
  return received({{"connection", "keep-alive, Upgrade"},
                   {"upgrade", "websocket"},
                   {"sec-websocket-version", "13"},
                   {"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="},
                   {"sec-websocket-extensions", "permessage-deflate"}});
}

TEST(PrepareRequest, OnlyARealWebsocketUpgrades) {
  auto head = prepare_request(handshake(), rules());
  ASSERT_TRUE(head.ok());
  EXPECT_TRUE(is_websocket(*head));
  EXPECT_EQ(head->headers.find("connection"), "Upgrade");
  EXPECT_TRUE(head->headers.find("sec-websocket-extensions"));
  auto read = rules();
  read.read_answer = true;
  EXPECT_FALSE(prepare_request(handshake(), read)->headers.find("sec-websocket-extensions"));
  for (auto [name, value] :
       {std::pair("sec-websocket-version", "8"), std::pair("sec-websocket-key", "short")}) {
    auto wrong = handshake();
    wrong.headers.set(name, value);
    EXPECT_EQ(word_of(prepare_request(wrong, rules())), "websocket_refused");
  }
  auto post = handshake();
  post.method = "POST";
  EXPECT_EQ(word_of(prepare_request(post, rules())), "websocket_refused");
  // An Upgrade that Connection does not name is none.
  auto silent = handshake();
  silent.headers.set("connection", "keep-alive");
  EXPECT_FALSE(is_websocket(*prepare_request(silent, rules())));
}

TEST(PrepareRequest, TrailersCannotSayWhatABindingSets) {
  std::vector<std::string> injected{"x-token"};
  http::Headers trailers{
      {"x-token", "1"}, {"x_token", "1"}, {"authorization", "x"}, {"proxy-x", "1"}, {"x-sum", "1"}};
  auto left = prepare_trailers(trailers, injected);
  EXPECT_EQ(left.size(), 1u);
  EXPECT_EQ(left.find("x-sum"), "1");
}

AnswerRules brokered() {
  AnswerRules out{.authority = *parse_authority("api.example:443", 443)};
  out.brokered = true;
  return out;
}

http::ResponseHead answer(std::initializer_list<http::Header> headers, int status = 200) {
  http::ResponseHead head{.status = status};
  head.headers = http::Headers(headers);
  return head;
}

TEST(PrepareAnswer, FieldsOfOneHopAndOtherWaysDoNotArrive) {
  auto got = prepare_answer(answer({{"connection", "x-mine"},
                                    {"x-mine", "1"},
                                    {"keep-alive", "5"},
                                    {"proxy-authenticate", "Basic"},
                                    {"alt-svc", "h3=\":443\""},
                                    {"transfer-encoding", "chunked"},
                                    {"upgrade", "h2c"},
                                    {"request-id", "r"}}),
                            AnswerRules{.authority = *parse_authority("x.example:443", 443)});
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->head.headers.size(), 1u);
  EXPECT_EQ(got->head.headers.find("request-id"), "r");
}

TEST(PrepareAnswer, CookiesOfBrokeredHostsStay) {
  auto with = answer({{"set-cookie", "s=1"}, {"set-cookie", "t=2"}});
  EXPECT_EQ(prepare_answer(with, brokered())->head.headers.size(), 0u);
  auto kept = brokered();
  kept.keep_cookies = true;
  EXPECT_EQ(prepare_answer(with, kept)->head.headers.size(), 2u);
  auto open = brokered();
  open.brokered = false;
  EXPECT_EQ(prepare_answer(with, open)->head.headers.size(), 2u);
}

// Reports 15 and 18: the length and the coding go together, and both go when the body changes.
TEST(PrepareAnswer, ABodyThatChangesHasNeitherItsLengthNorItsCoding) {
  auto with = answer({{"content-length", "10"},
                      {"content-encoding", "gzip"},
                      {"etag", "x"},
                      {"digest", "x"},
                      {"content-type", "text/event-stream"}},
                     500);
  auto changed = brokered();
  changed.body_changes = true;
  auto got = prepare_answer(with, changed);
  EXPECT_EQ(got->head.headers.size(), 1u);
  EXPECT_TRUE(got->head.headers.find("content-type"));
  EXPECT_EQ(prepare_answer(with, brokered())->head.headers.size(), 5u);
}

// Report 72: an upstream that shows what it was sent.
TEST(PrepareAnswer, SecretsInFieldsAreReplaced) {
  std::vector<SecretPatterns::Pattern> patterns;
  patterns.push_back({Secret("sk-very-secret"), "atoll_placeholder"});
  auto with = brokered();
  with.patterns = std::make_shared<SecretPatterns>(patterns);
  auto got = prepare_answer(answer({{"x-echo", "Bearer sk-very-secret!"},
                                    {"location", "https://api.example/?key=sk-very-secret"},
                                    {"x-sk-very-secret", "1"}},
                                   302),
                            with);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->incidents, 3u);
  EXPECT_EQ(got->head.headers.find("x-echo"), "Bearer atoll_placeholder!");
  EXPECT_EQ(got->head.headers.find("location"), "https://api.example/?key=atoll_placeholder");
  EXPECT_EQ(got->head.headers.size(), 2u);
  std::size_t incidents = 0;
  http::Headers trailers{{"x-echo", "sk-very-secret"}, {"grpc-status", "0"}};
  auto left = prepare_answer_trailers(trailers, with, incidents);
  EXPECT_EQ(left.find("x-echo"), "atoll_placeholder");
  EXPECT_EQ(left.size(), 2u);
  EXPECT_EQ(incidents, 1u);
}

TEST(PrepareAnswer, RedirectsAreJudgedByTheirOrigin) {
  auto api = *parse_authority("api.example:443", 443);
  for (auto same :
       {"/x", "x/y", "?a", "#f", "", "//api.example/x", "https://API.example:443/", "//api.example.?x"})
    EXPECT_EQ(judge_redirect(same, api, true), Redirect::kSameOrigin) << same;
  for (auto other : {"http://api.example/", "https://api.example:444/", "//evil.example", "https://1.2.3.4/",
                     "https://api.example.evil.example/", "https://sub.api.example/"})
    EXPECT_EQ(judge_redirect(other, api, true), Redirect::kOtherOrigin) << other;
  for (auto unclear :
       {"ftp://api.example/", "javascript:1", "https:/evil.example", "https:evil.example",
        "https://a@evil.example/", "\\\\evil.example", "/\\evil.example", " https://evil.example",
        "https://evil.example:x/", "https://", "//", "h\nttps://evil"})
    EXPECT_EQ(judge_redirect(unclear, api, true), Redirect::kUnclear) << unclear;
}

TEST(PrepareAnswer, ARedirectThatCannotBeJudgedIsABadGateway) {
  auto unclear = answer({{"location", "https://a@evil.example/"}}, 302);
  auto refused = prepare_answer(unclear, brokered());
  EXPECT_EQ(refused.error().word(), "redirect_refused");
  EXPECT_FALSE(prepare_answer(answer({{"location", "/a"}, {"location", "/b"}}, 307), brokered()).ok());
  EXPECT_TRUE(prepare_answer(answer({{"location", "https://evil.example/"}}, 302), brokered()).ok());
  EXPECT_TRUE(prepare_answer(answer({}, 304), brokered()).ok());
}

TEST(Websocket, IsAcceptedByItsKeyOnly) {
  auto request = *prepare_request(handshake(), rules());
  auto good =
      answer({{"upgrade", "WebSocket"}, {"sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="}}, 101);
  EXPECT_TRUE(accepts_websocket(request, good));
  auto wrong = good;
  wrong.headers.set("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOp=");
  EXPECT_FALSE(accepts_websocket(request, wrong));
  auto compressed = good;
  compressed.headers.set("sec-websocket-extensions", "permessage-deflate");
  auto offered = request;
  offered.headers.remove("sec-websocket-extensions");
  EXPECT_FALSE(accepts_websocket(offered, compressed)) << "nobody asked for it";
  offered.headers.set("sec-websocket-extensions", "permessage-deflate");
  EXPECT_TRUE(accepts_websocket(offered, compressed));
  auto other = good;
  other.headers.set("upgrade", "h2c");
  EXPECT_FALSE(accepts_websocket(request, other));
  good.status = 200;
  EXPECT_FALSE(accepts_websocket(request, good));
}

}  // namespace
}  // namespace atl::gateway
