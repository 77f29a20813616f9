// SPDX-License-Identifier: Apache-2.0
#include "http/http1_for_test.h"

namespace atl::http {
namespace {

using namespace testing;

TEST(Http1Server, AnswersASimpleRequest) {
  auto got = talk("GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n", answer_ok);
  EXPECT_EQ(got.answer, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
}

TEST(Http1Server, AnswersPipelinedRequestsInOrder) {
  std::string one = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
  std::string two =
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n";
  auto got = talk(one + two + one, answer_echo);
  EXPECT_EQ(count_of(got.answer, "200 OK"), 3u);
  EXPECT_LT(got.answer.find("abc"), got.answer.find("def"));
}

TEST(Http1Server, AThousandPipelinedRequestsAreAllAnswered) {
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_EQ(count_of(talk(many, answer_ok).answer, "200 OK"), 1000u);
}

struct Refused {
  const char* name;
  std::string request;
  int status;
};

class Http1Refuses : public ::testing::TestWithParam<Refused> {};

TEST_P(Http1Refuses, WithAnErrorInJsonAndClose) {
  bool called = false;
  Handler handler = [&called](Exchange& exchange) {
    called = true;
    return answer_echo(exchange);
  };
  auto got = talk(GetParam().request, handler);
  EXPECT_EQ(status_of(got.answer), GetParam().status) << got.answer;
  EXPECT_NE(got.answer.find("connection: close"), std::string::npos);
  EXPECT_NE(got.answer.find("{\"code\":" + std::to_string(GetParam().status) + ",\"message\":\""),
            std::string::npos);
  EXPECT_EQ(count_of(got.answer, "connection: close"), 1u);
  EXPECT_FALSE(called);
}

std::string with_header(const std::string& line) {
  return "POST / HTTP/1.1\r\nHost: x\r\n" + line + "\r\n\r\n0\r\n\r\n";
}
std::string with_line(const std::string& line) { return line + "\r\nHost: x\r\n\r\n"; }

std::string many_headers(int count) {
  std::string out = "GET / HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < count; ++i) out += "a: b\r\n";
  return out + "\r\n";
}

INSTANTIATE_TEST_SUITE_P(
    All, Http1Refuses,
    ::testing::Values(
        Refused{"BothLengths", with_header("Content-Length: 5\r\nTransfer-Encoding: chunked"), 400},
        Refused{"BothLengthsReversed", with_header("Transfer-Encoding: chunked\r\nContent-Length: 5"), 400},
        Refused{"DuplicateLength", with_header("Content-Length: 5\r\nContent-Length: 5"), 400},
        Refused{"ListOfLengths", with_header("Content-Length: 5, 5"), 400},
        Refused{"SignedLength", with_header("Content-Length: +5"), 400},
        Refused{"NegativeLength", with_header("Content-Length: -5"), 400},
        Refused{"HexLength", with_header("Content-Length: 0x5"), 400},
        Refused{"EmptyLength", with_header("Content-Length: "), 400},
        Refused{"HugeLength", with_header("Content-Length: 99999999999999999999"), 400},
        Refused{"OtherCoding", with_header("Transfer-Encoding: xchunked"), 400},
        Refused{"CodingList", with_header("Transfer-Encoding: gzip, chunked"), 400},
        Refused{"ChunkedTwice", with_header("Transfer-Encoding: chunked, chunked"), 400},
        Refused{"DuplicateCoding", with_header("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
                400},
        Refused{"IdentityCoding", with_header("Transfer-Encoding: identity"), 400},
        Refused{"CodingWithVerticalTab",
                with_header("Transfer-Encoding: \x0b"
                            "chunked"),
                400},
        Refused{"CodingInHttp10", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        Refused{"BareLineFeed", "GET / HTTP/1.1\nHost: x\n\n", 400},
        Refused{"BareLineFeedInHeaders", "GET / HTTP/1.1\r\nHost: x\na: b\r\n\r\n", 400},
        Refused{"BareCarriageReturn", with_header("a: b\rc: d"), 400},
        Refused{"FoldedLine", with_header("a: b\r\n c"), 400},
        Refused{"FoldedFirstLine", "GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400},
        Refused{"NulInValue", with_header(std::string("a: b\0c", 6)), 400},
        Refused{"ControlInValue", with_header("a: b\x01"), 400},
        Refused{"DeleteInValue", with_header("a: b\x7f"), 400},
        Refused{"SpaceBeforeColon", with_header("Content-Length : 5"), 400},
        Refused{"EmptyHeaderName", with_header(": x"), 400}, Refused{"NoColon", with_header("nonsense"), 400},
        Refused{"NonAsciiHeaderName", with_header("\xc3\xa4: x"), 400},
        Refused{"MissingHost", "GET / HTTP/1.1\r\n\r\n", 400},
        Refused{"DuplicateHost", with_header("Host: x"), 400},
        Refused{"EmptyHost", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
        Refused{"HostWithUserinfo", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400},
        Refused{"HostWithPath", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
        Refused{"HostList", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
        Refused{"HostWithBadPort", "GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n", 400},
        Refused{"BadMethodToken", with_line("G{T / HTTP/1.1"), 400},
        Refused{"LowerCaseMethod", with_line("get / HTTP/1.1"), 400},
        Refused{"UnknownMethod", with_line("FROB / HTTP/1.1"), 400},
        Refused{"Http2Preface", with_line("PRI * HTTP/2.0"), 505}, Refused{"Http09", "GET /a\r\n\r\n", 400},
        Refused{"Http12", with_line("GET / HTTP/1.2"), 505},
        Refused{"Http3", with_line("GET / HTTP/3.0"), 505},
        Refused{"LowerCaseVersion", with_line("GET / http/1.1"), 400},
        Refused{"TwoSpaces", with_line("GET  / HTTP/1.1"), 400},
        Refused{"SpaceInTarget", with_line("GET /a b HTTP/1.1"), 400},
        Refused{"TabAsSeparator", with_line("GET\t/\tHTTP/1.1"), 400},
        Refused{"FragmentInTarget", with_line("GET /a#b HTTP/1.1"), 400},
        Refused{"BackslashInPath", with_line("GET /a\\b HTTP/1.1"), 400},
        Refused{"Utf8InTarget", with_line("GET /\xc3\xa4 HTTP/1.1"), 400},
        Refused{"RelativeTarget", with_line("GET a HTTP/1.1"), 400},
        Refused{"AsteriskForGet", with_line("GET * HTTP/1.1"), 400},
        Refused{"AbsoluteFormForAnotherHost", with_line("GET http://y/ HTTP/1.1"), 400},
        Refused{"AbsoluteFormWithUserinfo", with_line("GET http://a@x/ HTTP/1.1"), 400},
        Refused{"AbsoluteFormWithOtherScheme", with_line("GET ftp://x/ HTTP/1.1"), 400},
        Refused{"ConnectWithoutPort", "CONNECT / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        Refused{"ConnectWithBody", "CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\nContent-Length: 2\r\n\r\nab", 400},
        Refused{"OtherExpectation", with_header("Expect: more"), 417},
        Refused{"TooManyHeaders", many_headers(200), 431},
        Refused{"ManyConnectionOptions", with_header("Connection: " + std::string(32, ',')), 400},
        Refused{"HeadTooLarge", with_header("a: " + std::string(70'000, 'x')), 431},
        Refused{"TargetTooLong", with_line("GET /" + std::string(20'000, 'x') + " HTTP/1.1"), 414},
        Refused{"MillionByteTarget", with_line("GET /" + std::string(1'000'000, 'x') + " HTTP/1.1"), 414},
        Refused{"TlsHello", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", 12), 400}),
    [](const auto& p) { return std::string(p.param.name); });

Task<> show_request(Exchange& exchange) {
  auto& r = exchange.request();
  ResponseHead head;
  auto text = fmt::format("{} {} {} {} {}.", r.method, r.target, r.authority, r.version, r.scheme);
  (void)co_await exchange.respond(std::move(head), std::move(text));
}

TEST(Http1Server, ReducesAbsoluteFormToOriginForm) {
  auto got = talk(with_line("GET http://X/a?b HTTP/1.1"), show_request);
  EXPECT_NE(got.answer.find("GET /a?b x 11 http."), std::string::npos) << got.answer;
  got = talk(with_line("GET http://x HTTP/1.1"), show_request);
  EXPECT_NE(got.answer.find("GET / x 11 http."), std::string::npos) << got.answer;
  got = talk(with_line("GET HTTPS://x/a HTTP/1.1"), show_request);
  EXPECT_NE(got.answer.find("GET /a x 11 https."), std::string::npos) << got.answer;
  got = talk(with_line("GET /a HTTP/1.1"), show_request);
  EXPECT_NE(got.answer.find("GET /a x 11 ."), std::string::npos) << got.answer;
}

TEST(Http1Server, LetsOneEmptyLineBeforeARequestPass) {
  EXPECT_EQ(status_of(talk("\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", answer_ok).answer), 200);
  EXPECT_EQ(status_of(talk("\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", answer_ok).answer), 400);
}

TEST(Http1Server, Http10WithoutHostIsServedAndClosed) {
  auto got = talk("GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n", answer_ok);
  EXPECT_EQ(count_of(got.answer, "200 OK"), 1u);
  EXPECT_NE(got.answer.find("connection: close"), std::string::npos);
}

TEST(Http1Server, HonoursConnectionClose) {
  std::string request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(count_of(talk(request + request, answer_ok).answer, "200 OK"), 1u);
}

TEST(Http1Server, ByteByByteIsTheSameAsAtOnce) {
  // Every split of head and body must parse alike; the stream pair delivers each write by itself or merged.
  ServerLimits limits;
  asio::io_context loop;
  auto [client, server] = net::stream_pair(loop.get_executor());
  Handler handler = answer_echo;
  asio::co_spawn(loop, serve_http1(std::move(server), "", false, limits, handler), asio::detached);
  std::string request =
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\n";
  auto trickle = [](net::Stream& stream, std::string text) -> Task<> {
    for (char c : text) {
      (void)co_await stream.write_all(std::string_view(&c, 1));
      for (int i = 0; i < 4; ++i) co_await async::yield();
    }
    (void)co_await stream.shutdown_write();
  };
  std::string answer;
  std::optional<Error> failure;
  asio::co_spawn(loop, trickle(*client, request), asio::detached);
  asio::co_spawn(loop, receive_raw(*client, answer, failure), asio::detached);
  loop.run();
  EXPECT_NE(answer.find("\r\n\r\nabc0123456789"), std::string::npos) << answer;
}

class ChunkedBodyRefused : public ::testing::TestWithParam<const char*> {};
TEST_P(ChunkedBodyRefused, With400) {
  auto got =
      talk(std::string("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n") + GetParam(),
           answer_echo);
  EXPECT_EQ(status_of(got.answer), 400) << got.answer;
  EXPECT_NE(got.answer.find("connection: close"), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(All, ChunkedBodyRefused,
                         ::testing::Values("3;ext=1\r\nabc\r\n0\r\n\r\n", "3\nabc\r\n0\r\n\r\n",
                                           "3\r\nabc\n0\r\n\r\n", "3\r\nabcd\r\n0\r\n\r\n",
                                           "+3\r\nabc\r\n0\r\n\r\n", "0x3\r\nabc\r\n0\r\n\r\n",
                                           " 3\r\nabc\r\n0\r\n\r\n", "\r\nabc\r\n0\r\n\r\n", "g\r\n",
                                           "-1\r\n", "fffffffffffffffff\r\n",
                                           "0000000000000000003\r\nabc\r\n0\r\n\r\n", "0\r\nnocolon\r\n\r\n",
                                           "0\r\n: x\r\n\r\n", "0\r\na b: x\r\n\r\n", "0\r\n a: x\r\n\r\n",
                                           "0\r\na: x\n\r\n", "3\r\nabc\r\n0\r\na: \x01\r\n\r\n"));

TEST(Http1Server, TrailersPassBothWays) {
  Headers seen;
  Handler handler = [&seen](Exchange& exchange) -> Task<> {
    (void)co_await exchange.read_all(100);
    seen = exchange.request_trailers();
    ResponseHead head;
    (void)co_await exchange.send_head_and(std::move(head), "x");
    Headers trailers{{"grpc-status", "0"}, {"content-length", "7"}};
    exchange.set_trailers(std::move(trailers));
    (void)co_await exchange.finish();
  };
  auto got = talk(
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum:  a b \r\n"
      "Authorization: x\r\n\r\n",
      handler);
  EXPECT_EQ(seen.find("x-sum"), "a b");
  EXPECT_EQ(seen.size(), 1u);
  EXPECT_TRUE(got.answer.ends_with("\r\n1\r\nx\r\n0\r\ngrpc-status: 0\r\n\r\n")) << got.answer;
}

TEST(Http1Server, ATrailerIsBounded) {
  std::string trailer = "0\r\nx: " + std::string(9000, 'y') + "\r\n\r\n";
  auto got = talk("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + trailer, answer_echo);
  EXPECT_EQ(status_of(got.answer), 400);
}

TEST(Http1Server, ABodyCutShortIsTheClientGoneAndNotAnEnd) {
  Code code = Code::kInternal;
  Handler handler = [&code](Exchange& exchange) -> Task<> {
    auto body = co_await exchange.read_all(100);
    if (!body.ok()) code = body.error().code();
  };
  talk("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", handler);
  EXPECT_EQ(code, Code::kCancelled);
}

TEST(Http1Server, ABodyBeyondTheLimitIsTooLarge) {
  Handler handler = [](Exchange& exchange) -> Task<> {
    auto body = co_await exchange.read_all(4);
    ResponseHead head{.status = body.ok() ? 200 : http_status(body.error().code())};
    (void)co_await exchange.respond(std::move(head), "");
  };
  EXPECT_EQ(status_of(talk("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde", handler).answer),
            413);
  std::string chunked =
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n";
  EXPECT_EQ(status_of(talk(chunked, handler).answer), 413);
  EXPECT_EQ(status_of(talk("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd", handler).answer),
            200);
}

TEST(Http1Server, ASlowHeadIs408) {
  ServerLimits limits;
  limits.head_timeout = std::chrono::milliseconds(10);
  auto got = talk("GET / HTTP/1.1\r\nHo", answer_ok, limits, Then::kStayOpen);
  EXPECT_EQ(status_of(got.answer), 408);
}

TEST(Http1Server, ASilentConnectionIsClosedWithoutAWord) {
  ServerLimits limits;
  limits.head_timeout = std::chrono::milliseconds(10);
  auto got = talk("", answer_ok, limits, Then::kStayOpen);
  EXPECT_EQ(got.answer, "");
}

TEST(Http1Server, AKeptConnectionIsClosedAfterItsIdleTime) {
  ServerLimits limits;
  limits.idle_timeout = std::chrono::milliseconds(10);
  auto got = talk("GET / HTTP/1.1\r\nHost: x\r\n\r\n", answer_ok, limits, Then::kStayOpen);
  EXPECT_EQ(count_of(got.answer, "HTTP/1.1"), 1u);
}

TEST(Http1Server, AStalledBodyEndsWithDeadline) {
  ServerLimits limits;
  limits.body_idle = std::chrono::milliseconds(10);
  Code code = Code::kInternal;
  Handler handler = [&code](Exchange& exchange) -> Task<> {
    auto body = co_await exchange.read_all(100);
    if (!body.ok()) code = body.error().code();
  };
  auto got =
      talk("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", handler, limits, Then::kStayOpen);
  EXPECT_EQ(code, Code::kDeadline);
  EXPECT_EQ(status_of(got.answer), 500);
}

TEST(Http1Server, ContinueIsSentWhenTheHandlerReads) {
  auto got =
      talk("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", answer_echo);
  EXPECT_TRUE(got.answer.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")) << got.answer;
}

TEST(Http1Server, ContinueIsNotSentWhenTheHandlerDoesNotRead) {
  auto got = talk("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
                  answer_ok, {}, Then::kStayOpen);
  EXPECT_TRUE(got.answer.starts_with("HTTP/1.1 200 OK\r\n")) << got.answer;
  EXPECT_NE(got.answer.find("connection: close"), std::string::npos);
}

TEST(Http1Server, AnUnreadBodyIsDiscardedAndTheConnectionKept) {
  std::string request =
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x');
  EXPECT_EQ(count_of(talk(request + request, answer_ok).answer, "200 OK"), 2u);
}

TEST(Http1Server, AHugeUnreadBodyClosesTheConnection) {
  std::string request =
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\n" + std::string(400'000, 'x');
  std::string answer = talk(request + request, answer_ok).answer;
  EXPECT_EQ(count_of(answer, "200 OK"), 1u);
  EXPECT_NE(answer.find("connection: close"), std::string::npos) << "and the client is told";
}

// How much of it will come is not known, so that nobody can promise to read it all.
TEST(Http1Server, AnUnreadBodyInChunksClosesTheConnection) {
  std::string request =
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
  std::string answer = talk(request + request, answer_ok).answer;
  EXPECT_EQ(count_of(answer, "200 OK"), 1u);
  EXPECT_NE(answer.find("connection: close"), std::string::npos);
}

TEST(Http1Server, HeadNoContentAndNotModifiedHaveNoBody) {
  auto got = talk("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", answer_ok);
  EXPECT_EQ(got.answer, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n");
  Handler handler = [](Exchange& exchange) -> Task<> {
    ResponseHead head{.status = exchange.request().target == "/204" ? 204 : 304};
    (void)co_await exchange.respond(std::move(head), "must not be sent");
  };
  EXPECT_EQ(talk("GET /204 HTTP/1.1\r\nHost: x\r\n\r\n", handler).answer, "HTTP/1.1 204 No Content\r\n\r\n");
  EXPECT_EQ(talk("GET /304 HTTP/1.1\r\nHost: x\r\n\r\n", handler).answer,
            "HTTP/1.1 304 Not Modified\r\n\r\n");
}

Task<> stream_parts(Exchange& exchange) {
  ResponseHead head;
  (void)co_await exchange.send_head(std::move(head));
  (void)co_await exchange.write("one");
  (void)co_await exchange.write("");
  (void)co_await exchange.write(std::string(20, 'x'));
  (void)co_await exchange.finish();
}

TEST(Http1Server, ABodyWithoutLengthIsChunkedInHttp11) {
  auto got = talk("GET / HTTP/1.1\r\nHost: x\r\n\r\n", stream_parts);
  EXPECT_EQ(got.answer, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n14\r\n" +
                            std::string(20, 'x') + "\r\n0\r\n\r\n");
}

TEST(Http1Server, ABodyWithoutLengthEndsWithTheConnectionInHttp10) {
  auto got = talk("GET / HTTP/1.0\r\n\r\n", stream_parts);
  EXPECT_EQ(got.answer, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\none" + std::string(20, 'x'));
}

TEST(Http1Server, AHandlerThatSendsNothingIs500) {
  auto got = talk("GET / HTTP/1.1\r\nHost: x\r\n\r\n", [](Exchange&) -> Task<> { co_return; });
  EXPECT_EQ(status_of(got.answer), 500);
}

TEST(Http1Server, AHandlerThatThrowsIs500) {
  auto got = talk("GET / HTTP/1.1\r\nHost: x\r\n\r\n", [](Exchange&) -> Task<> {
    throw std::runtime_error("bug");
    co_return;
  });
  EXPECT_EQ(status_of(got.answer), 500);
}

TEST(Http1Server, AHeaderThatWouldSplitTheAnswerIsNotSent) {
  Handler handler = [](Exchange& exchange) -> Task<> {
    ResponseHead head;
    head.headers.add("x", "a\r\nset-cookie: evil");
    auto sent = co_await exchange.respond(std::move(head), "");
    EXPECT_FALSE(sent.ok());
  };
  auto got = talk("GET / HTTP/1.1\r\nHost: x\r\n\r\n", handler);
  EXPECT_EQ(status_of(got.answer), 500);
  EXPECT_EQ(got.answer.find("evil"), std::string::npos);
}

TEST(Http1Server, FramingHeadersOfTheHandlerAreIgnored) {
  Handler handler = [](Exchange& exchange) -> Task<> {
    ResponseHead head;
    head.headers.add("transfer-encoding", "chunked");
    head.headers.add("connection", "keep-alive, x");
    (void)co_await exchange.respond(std::move(head), "ok");
  };
  EXPECT_EQ(talk("GET / HTTP/1.1\r\nHost: x\r\n\r\n", handler).answer,
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
}

TEST(Http1Server, AHandlerMayCloseTheConnection) {
  Handler handler = [](Exchange& exchange) -> Task<> {
    ResponseHead head;
    head.headers.add("connection", "close");
    (void)co_await exchange.respond(std::move(head), "ok");
  };
  std::string request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  auto got = talk(request + request, handler);
  EXPECT_EQ(got.answer, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
}

TEST(Http1Server, AnUnfinishedAnswerBreaksTheConnection) {
  Handler handler = [](Exchange& exchange) -> Task<> {
    ResponseHead head;
    (void)co_await exchange.send_head(std::move(head));
    (void)co_await exchange.write("part");
  };
  auto got = talk("GET / HTTP/1.1\r\nHost: x\r\n\r\n", handler, {}, Then::kStayOpen);
  EXPECT_EQ(got.answer.find("0\r\n\r\n"), std::string::npos);
}

TEST(Http1Server, AnAnswerShorterThanItsLengthIsAborted) {
  Handler handler = [](Exchange& exchange) -> Task<> {
    ResponseHead head;
    head.headers.add("content-length", "10");
    (void)co_await exchange.send_head(std::move(head));
    (void)co_await exchange.write("short");
    EXPECT_FALSE((co_await exchange.finish()).ok());
  };
  std::string request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_EQ(count_of(talk(request + request, handler).answer, "HTTP/1.1"), 1u);
}

Task<> echo_uploaded(Exchange& exchange, async::Event& done) {
  char buffer[64];
  for (;;) {
    auto count = co_await exchange.read_body(buffer);
    if (!count.ok() || *count == 0) break;
    EXPECT_TRUE((co_await exchange.write(std::string_view(buffer, *count))).ok());
  }
  done.notify_all();
}

// The client sends its next part only after the server has answered the one before: both directions at once.
TEST(Http1Server, ReadsAndWritesAtTheSameTime) {
  asio::io_context loop;
  auto [client, server] = net::stream_pair(loop.get_executor());
  ServerLimits limits;
  Handler handler = [](Exchange& exchange) -> Task<> {
    ResponseHead head;
    (void)co_await exchange.send_head(std::move(head));
    async::Event done(co_await asio::this_coro::executor);
    co_await echo_uploaded(exchange, done);
    (void)co_await exchange.finish();
  };
  asio::co_spawn(loop, serve_http1(std::move(server), "", false, limits, handler), asio::detached);
  std::string seen;
  auto converse = [](net::Stream& stream, std::string& out) -> Task<> {
    char buffer[256];
    (void)co_await stream.write_all("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (auto part : {"ping", "pong", "last"}) {
      auto chunk = fmt::format("4\r\n{}\r\n", part);
      (void)co_await stream.write_all(chunk);
      while (out.find(part) == std::string::npos) {
        auto count = co_await stream.read_some(buffer);
        if (!count.ok() || *count == 0) co_return;
        out.append(buffer, *count);
      }
    }
    stream.close();
  };
  asio::co_spawn(loop, converse(*client, seen), asio::detached);
  loop.run();
  EXPECT_NE(seen.find("last"), std::string::npos) << seen;
}

TEST(Http1Server, TheHandlerLearnsThatTheClientIsGone) {
  bool gone = false;
  Handler handler = [&gone](Exchange& exchange) -> Task<> {
    ResponseHead head;
    (void)co_await exchange.send_head(std::move(head));
    co_await exchange.wait_client_gone();
    gone = true;
  };
  talk("GET / HTTP/1.1\r\nHost: x\r\n\r\n", handler, {}, Then::kEnd);
  EXPECT_TRUE(gone);
}

TEST(Http1Server, UpgradeHandsOverTheStreamWithBytesAlreadyReceived) {
  Handler handler = [](Exchange& exchange) -> Task<> {
    ResponseHead head{.status = 101};
    head.headers.add("upgrade", "echo");
    auto stream = co_await exchange.upgrade(std::move(head));
    EXPECT_TRUE(stream.ok());
    char buffer[64];
    for (;;) {
      auto count = co_await (*stream)->read_some(buffer);
      if (!count.ok() || *count == 0) break;
      (void)co_await (*stream)->write_all(std::string_view(buffer, *count));
    }
  };
  auto got =
      talk("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nraw bytes", handler);
  EXPECT_EQ(got.answer,
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: echo\r\nconnection: upgrade\r\n\r\nraw bytes");
}

TEST(Http1Server, ConnectIsAnsweredWithATunnel) {
  Handler handler = [](Exchange& exchange) -> Task<> {
    EXPECT_EQ(exchange.request().target, "example.com:443");
    ResponseHead head{.status = 200};
    auto stream = co_await exchange.upgrade(std::move(head));
    if (stream.ok()) (void)co_await (*stream)->write_all("tunnel");
  };
  auto got = talk("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", handler);
  EXPECT_EQ(got.answer, "HTTP/1.1 200 OK\r\n\r\ntunnel");
}

TEST(Http1Server, ADrainedIdleConnectionClosesAtOnceAndABusyOneAfterItsAnswer) {
  asio::io_context loop;
  auto [client, server] = net::stream_pair(loop.get_executor());
  ServerLimits limits;
  Drain drain;
  Handler handler = [&drain](Exchange& exchange) -> Task<> {
    if (exchange.request().target == "/last") drain.request();
    co_await answer_ok(exchange);
  };
  asio::co_spawn(loop, serve_http1(std::move(server), "", false, limits, handler, &drain), asio::detached);
  std::string answer;
  std::optional<Error> failure;
  std::string one = "GET / HTTP/1.1\r\nHost: x\r\n\r\n", last = "GET /last HTTP/1.1\r\nHost: x\r\n\r\n";
  asio::co_spawn(loop, send_raw(*client, one + last + one, false), asio::detached);
  asio::co_spawn(loop, receive_raw(*client, answer, failure), asio::detached);
  loop.run();
  EXPECT_EQ(count_of(answer, "200 OK"), 2u);
  EXPECT_EQ(count_of(answer, "connection: close"), 1u);
}

}  // namespace
}  // namespace atl::http
