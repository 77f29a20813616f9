// SPDX-License-Identifier: Apache-2.0
#include <list>

#include "http/h2/h2_client_for_test.h"
#include "http/h2/incoming.h"

namespace atl::http {
namespace {

using namespace testing;

Task<> answer_echo(Exchange& exchange) {
  auto body = co_await exchange.read_all(64 << 20);
  ResponseHead head;
  if (!body.ok()) head.status = http_status(body.error().code());
  head.headers.add("x-method", exchange.request().method);
  auto text = body.ok() ? *body : body.error().message();
  (void)co_await exchange.respond(std::move(head), std::move(text));
}

TEST(Http2Server, AnswersManyRequestsOnOneConnection) {
  H2Pair pair(answer_echo);
  for (int i = 0; i < 100; ++i) pair.client->request(H2Client::post("/"), "body " + std::to_string(i));
  pair.run();
  EXPECT_EQ(pair.client->replies.size(), 100u);
  for (auto& [id, reply] : pair.client->replies) {
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, "body " + std::to_string(id / 2));
    EXPECT_EQ(reply.error, 0u);
  }
}

TEST(Http2Server, MapsTheRequest) {
  RequestHead seen;
  Handler handler = [&seen](Exchange& exchange) {
    seen = exchange.request();
    return answer_echo(exchange);
  };
  H2Pair pair(handler);
  auto fields = H2Client::get("/a%20b?c=d");
  fields.push_back({"x-key", "v"});
  fields.push_back({"cookie", "a=1"});
  fields.push_back({"cookie", "b=2"});
  pair.client->request(fields);
  pair.run();
  EXPECT_EQ(seen.method, "GET");
  EXPECT_EQ(seen.target, "/a%20b?c=d");
  EXPECT_EQ(seen.authority, "x");
  EXPECT_EQ(seen.version, 20);
  EXPECT_FALSE(seen.has_body);
  EXPECT_EQ(seen.headers.find("x-key"), "v");
  EXPECT_EQ(seen.headers.find("cookie"), "a=1; b=2");
  EXPECT_EQ(seen.headers.count("cookie"), 1u);
}

TEST(Http2Server, LargeBodiesFlowBothWays) {
  H2Pair pair(answer_echo);
  std::string big(20'000'000, 'b');
  auto id = pair.client->request(H2Client::post("/"), big);
  pair.run();
  EXPECT_EQ(pair.client->replies[id].body, big);
}

TEST(Http2Server, HeadHasNoBody) {
  H2Pair pair(answer_echo);
  auto fields = H2Client::get("/");
  fields[0].second = "HEAD";
  auto id = pair.client->request(fields);
  pair.run();
  EXPECT_EQ(pair.client->replies[id].status, 200);
  EXPECT_EQ(pair.client->replies[id].body, "");
}

constexpr int kReset = 0;
// Older nghttp2 lets it through and we answer 400; 1.64 (Debian 13) resets the stream itself.
constexpr int kResetOr400 = -1;

struct BadHead {
  const char* name;
  H2Client::Fields fields;
  int status;
};

H2Client::Fields without(const std::string& name) {
  auto fields = H2Client::get("/");
  std::erase_if(fields, [&](const auto& f) { return f.first == name; });
  return fields;
}
H2Client::Fields with(std::string name, std::string value) {
  auto fields = H2Client::get("/");
  fields.push_back({std::move(name), std::move(value)});
  return fields;
}
H2Client::Fields replaced(const std::string& name, std::string value) {
  auto fields = H2Client::get("/");
  for (auto& f : fields) {
    if (f.first == name) f.second = value;
  }
  return fields;
}
H2Client::Fields many(int count) {
  auto fields = H2Client::get("/");
  for (int i = 0; i < count; ++i) fields.push_back({"a", "b"});
  return fields;
}

class Http2Refuses : public ::testing::TestWithParam<BadHead> {};
TEST_P(Http2Refuses, TheRequest) {
  bool called = false;
  Handler handler = [&called](Exchange& exchange) {
    called = true;
    return answer_echo(exchange);
  };
  ServerLimits limits;
  limits.head_bytes = 4096;
  limits.target_bytes = 1024;
  limits.header_count = 16;
  H2Pair pair(handler, limits);
  auto id = pair.client->request(GetParam().fields);
  pair.run();
  EXPECT_FALSE(called);
  auto& reply = pair.client->replies[id];
  int wanted = GetParam().status;
  if (wanted == kResetOr400) wanted = reply.status == 400 ? 400 : kReset;
  EXPECT_EQ(reply.status, wanted);
  if (wanted == kReset) {
    EXPECT_TRUE(reply.error != 0 || pair.client->goaway.value_or(0) != 0);
  } else {
    EXPECT_NE(reply.body.find("\"message\""), std::string::npos);
  }
}
INSTANTIATE_TEST_SUITE_P(
    All, Http2Refuses,
    ::testing::Values(BadHead{"MissingMethod", without(":method"), kReset},
                      BadHead{"MissingPath", without(":path"), kReset},
                      BadHead{"MissingScheme", without(":scheme"), kReset},
                      BadHead{"MissingAuthority", without(":authority"), kReset},
                      BadHead{"DuplicatePath", with(":path", "/b"), kReset},
                      BadHead{"UnknownPseudoField", with(":x", "y"), kReset},
                      BadHead{"ConnectionField", with("connection", "close"), kReset},
                      BadHead{"TransferEncoding", with("transfer-encoding", "chunked"), kReset},
                      BadHead{"UpgradeField", with("upgrade", "x"), kReset},
                      BadHead{"LineFeedInValue", with("x-key", "a\nb"), kReset},
                      BadHead{"LengthWithoutBody", with("content-length", "5"), kReset},
                      BadHead{"HostDiffers", with("host", "y"), 400},
                      BadHead{"EmptyPath", replaced(":path", ""), kReset},
                      BadHead{"FragmentInPath", replaced(":path", "/a#b"), 400},
                      BadHead{"RelativePath", replaced(":path", "a"), kReset},
                      BadHead{"UserinfoInAuthority", replaced(":authority", "a@x"), kResetOr400},
                      BadHead{"SpaceInPath", replaced(":path", "/a b"), kReset},
                      BadHead{"MethodInLowerCase", replaced(":method", "delete"), 400},
                      BadHead{"MethodThatNobodyKnows", replaced(":method", "PURGEALL"), 400},
                      BadHead{"TooManyFields", many(30), 431},
                      BadHead{"HeadTooLarge", with("a", std::string(5'000, 'x')), 431},
                      BadHead{"HeadFarTooLarge", with("a", std::string(30'000, 'x')), kReset},
                      BadHead{"PathTooLong", replaced(":path", "/" + std::string(2'000, 'x')), 414}),
    [](const auto& p) { return std::string(p.param.name); });

TEST(Http2Server, AbortIsAReset) {
  Handler handler = [](Exchange& exchange) -> Task<> {
    ResponseHead head;
    (void)co_await exchange.send_head(std::move(head));
    (void)co_await exchange.write("part");
    exchange.abort();
  };
  H2Pair pair(handler);
  auto id = pair.client->request(H2Client::get("/"));
  pair.run();
  EXPECT_EQ(pair.client->replies[id].error, static_cast<std::uint32_t>(NGHTTP2_INTERNAL_ERROR));
  EXPECT_FALSE(pair.client->goaway);
}

TEST(Http2Server, AnUnfinishedAnswerIsAResetAndAMissingOne500) {
  Handler handler = [](Exchange& exchange) -> Task<> {
    if (exchange.request().target == "/none") co_return;
    ResponseHead head;
    (void)co_await exchange.send_head(std::move(head));
  };
  H2Pair pair(handler);
  auto none = pair.client->request(H2Client::get("/none"));
  auto half = pair.client->request(H2Client::get("/half"));
  pair.run();
  EXPECT_EQ(pair.client->replies[none].status, 500);
  EXPECT_EQ(pair.client->replies[half].error, static_cast<std::uint32_t>(NGHTTP2_INTERNAL_ERROR));
}

TEST(Http2Server, AnAnswerBeforeTheBodyStopsTheUploadWithoutAnError) {
  Handler handler = [](Exchange& exchange) -> Task<> {
    ResponseHead head{.status = 413};
    (void)co_await exchange.respond(std::move(head), "no");
  };
  H2Pair pair(handler);
  auto id = pair.client->request(H2Client::post("/"), std::string(5'000'000, 'x'));
  pair.run();
  EXPECT_EQ(pair.client->replies[id].status, 413);
  EXPECT_EQ(pair.client->replies[id].error, static_cast<std::uint32_t>(NGHTTP2_NO_ERROR));
  EXPECT_LT(pair.client->replies[id].sent, 5'000'000u);
}

TEST(Http2Server, TheHandlerLearnsThatTheClientIsGone) {
  bool gone = false;
  Code code = Code::kInternal;
  Handler handler = [&](Exchange& exchange) -> Task<> {
    ResponseHead head;
    (void)co_await exchange.send_head(std::move(head));
    co_await exchange.wait_client_gone();
    gone = true;
    auto written = co_await exchange.write("x");
    if (!written.ok()) code = written.error().code();
  };
  H2Pair pair(handler);
  auto id = pair.client->request(H2Client::get("/"));
  pair.run([&] { return pair.client->replies[id].status == 200; });
  EXPECT_TRUE(gone);
  EXPECT_EQ(code, Code::kCancelled);
}

TEST(Http2Server, AResetByTheClientIsSeenByThatHandlerOnly) {
  int gone = 0;
  Handler handler = [&](Exchange& exchange) -> Task<> {
    if (exchange.request().target == "/short") co_return co_await answer_echo(exchange);
    ResponseHead head;
    (void)co_await exchange.send_head(std::move(head));
    co_await exchange.wait_client_gone();
    ++gone;
  };
  H2Pair pair(handler);
  auto id = pair.client->request(H2Client::get("/long"));
  std::int32_t second = 0;
  pair.run([&] {
    if (pair.client->replies[id].status == 200 && second == 0) {
      nghttp2_submit_rst_stream(pair.client->session, 0, id, NGHTTP2_CANCEL);
      second = pair.client->request(H2Client::get("/short"));
    }
    return second != 0 && pair.client->replies[second].closed;
  });
  EXPECT_EQ(gone, 1);
  EXPECT_EQ(pair.client->replies[second].status, 200);
}

TEST(Http2Server, ABodyThatStallsEndsWithDeadline) {
  ServerLimits limits;
  limits.body_idle = std::chrono::milliseconds(20);
  Code code = Code::kInternal;
  Handler handler = [&](Exchange& exchange) -> Task<> {
    auto body = co_await exchange.read_all(100);
    if (!body.ok()) code = body.error().code();
  };
  H2Pair pair(handler, limits);
  pair.client->request(H2Client::post("/"), "part", true);
  pair.run();
  EXPECT_EQ(code, Code::kDeadline);
}

// The client takes the first window of data and then never gives any back.
TEST(Http2Server, AStalledWindowEndsWithDeadlineAndOtherStreamsGoOn) {
  ServerLimits limits;
  limits.body_idle = std::chrono::milliseconds(20);
  Code code = Code::kInternal;
  Handler handler = [&](Exchange& exchange) -> Task<> {
    if (exchange.request().target == "/short") co_return co_await answer_echo(exchange);
    ResponseHead head;
    (void)co_await exchange.send_head(std::move(head));
    std::string much(1 << 20, 'x');
    auto written = co_await exchange.write(much);
    if (!written.ok()) code = written.error().code();
  };
  H2Pair pair(handler, limits);
  pair.client->read_bodies = false;
  pair.client->request(H2Client::get("/long"));
  auto other = pair.client->request(H2Client::get("/short"));
  pair.run();
  EXPECT_EQ(code, Code::kDeadline);
  EXPECT_EQ(pair.client->replies[other].status, 200);
}

// One handler does not read while its client sends as much as the windows let through; another stream must
// still work.
TEST(Http2Server, AHandlerThatDoesNotReadDoesNotStopTheOthers) {
  Handler handler = [&](Exchange& exchange) -> Task<> {
    if (exchange.request().target == "/other") co_return co_await answer_echo(exchange);
    ResponseHead head;
    (void)co_await exchange.send_head(std::move(head));
    co_await exchange.wait_client_gone();
  };
  H2Pair pair(handler);
  for (int i = 0; i < 5; ++i) pair.client->request(H2Client::post("/stuck"), std::string(3'000'000, 'x'));
  auto other = pair.client->request(H2Client::post("/other"), std::string(2'000'000, 'y'));
  pair.run([&] { return pair.client->replies[other].closed; });
  EXPECT_EQ(pair.client->replies[other].body.size(), 2'000'000u);
  for (auto& [id, reply] : pair.client->replies) {
    if (id != other) EXPECT_LE(reply.sent, (1u << 20) + 20'000u);
  }
}

// Servers and clients of many connections on one loop.
struct Crowd {
  asio::io_context loop;
  std::list<H2Client> clients;

  H2Client& connect(const ServerLimits& limits, const Handler& handler) {
    auto [a, b] = net::stream_pair(loop.get_executor());
    asio::co_spawn(loop, serve_http2(std::move(b), "", false, limits, handler), asio::detached);
    return clients.emplace_back(std::move(a));
  }
  void drive(H2Client& client, std::function<bool()> done) {
    asio::co_spawn(loop, client.drive(std::move(done)), asio::detached);
  }
  // Until everybody waits for somebody else.
  void settle() {
    while (loop.poll() > 0) {}
  }
  void end() {
    for (H2Client& client : clients) client.stream->close();
    loop.run();
  }
};

// The clients of one user send as much as the windows let through, to handlers that do not read.
TEST(Http2Server, WhatOneUserSendsStaysInHisShare) {
  constexpr std::size_t kMost = 4 << 20, kConnections = 16, kStreams = 8, kBody = 1 << 20;
  FairShare memory(64 << 20, kMost);
  ServerLimits greedy, other;
  greedy.memory = memory.of("greedy");
  other.memory = memory.of("other");
  Handler deaf = [](Exchange& exchange) { return exchange.wait_client_gone(); };
  Handler echo = answer_echo;
  Crowd crowd;
  for (std::size_t i = 0; i < kConnections; ++i) {
    H2Client& client = crowd.connect(greedy, deaf);
    for (std::size_t j = 0; j < kStreams; ++j) client.request(H2Client::post("/"), std::string(kBody, 'x'));
    crowd.drive(client, [] { return false; });
  }
  crowd.settle();
  EXPECT_LE(memory.used(), kMost);
  std::size_t sent = 0;
  for (H2Client& client : crowd.clients) {
    for (auto& [id, reply] : client.replies) sent += reply.sent;
  }
  EXPECT_GT(sent, kMost / 2);
  EXPECT_LE(sent, kMost + kConnections * H2Room::kLeastWindow);

  H2Client& second = crowd.connect(other, echo);
  std::string big(3'000'000, 'b');
  auto id = second.request(H2Client::post("/"), big);
  crowd.drive(second, [&second] { return second.all_closed(); });
  crowd.settle();
  EXPECT_EQ(second.replies[id].body, big);
  crowd.end();
  EXPECT_EQ(memory.used(), 0u);
}

// A user who has nothing left goes on, in small steps.
TEST(Http2Server, WithoutRoomBodiesPassAsTheyAreRead) {
  FairShare memory(1 << 30, 1000);
  ServerLimits limits;
  limits.memory = memory.of("a");
  H2Pair pair(answer_echo, limits);
  std::string big(3'000'000, 'b');
  auto id = pair.client->request(H2Client::post("/"), big);
  pair.run();
  EXPECT_EQ(pair.client->replies[id].body, big);
}

TEST(Http2Server, ReadsAndWritesAtTheSameTime) {
  Handler handler = [](Exchange& exchange) -> Task<> {
    ResponseHead head;
    (void)co_await exchange.send_head(std::move(head));
    char buffer[64];
    for (;;) {
      auto count = co_await exchange.read_body(buffer);
      if (!count.ok() || *count == 0) break;
      (void)co_await exchange.write(std::string_view(buffer, *count));
    }
    (void)co_await exchange.finish();
  };
  H2Pair pair(handler);
  auto id = pair.client->request(H2Client::post("/"), "ping", true);
  pair.run([&] {
    auto& reply = pair.client->replies[id];
    if (reply.body == "ping" && reply.hold_upload) {
      reply.upload += "pong";
      reply.hold_upload = false;
      nghttp2_session_resume_data(pair.client->session, id);
    }
    return reply.closed;
  });
  EXPECT_EQ(pair.client->replies[id].body, "pingpong");
}

TEST(Http2Server, UpgradeIsUnsupported) {
  Code code = Code::kInternal;
  Handler handler = [&](Exchange& exchange) -> Task<> {
    ResponseHead head{.status = 101};
    auto stream = co_await exchange.upgrade(std::move(head));
    if (!stream.ok()) code = stream.error().code();
    co_await answer_echo(exchange);
  };
  H2Pair pair(handler);
  pair.client->request(H2Client::get("/"));
  pair.run();
  EXPECT_EQ(code, Code::kUnsupported);
}

TEST(Http2Server, DrainEndsAfterTheRunningExchanges) {
  H2Pair* self = nullptr;
  Handler handler = [&](Exchange& exchange) -> Task<> {
    self->drain.request();
    co_await answer_echo(exchange);
  };
  H2Pair pair(handler);
  self = &pair;
  auto id = pair.client->request(H2Client::get("/"));
  pair.run([] { return false; });
  EXPECT_EQ(pair.client->replies[id].status, 200);
  EXPECT_TRUE(pair.client->ended);
  EXPECT_EQ(pair.client->goaway, static_cast<std::uint32_t>(NGHTTP2_NO_ERROR));
}

TEST(Http2Server, AConnectionThatAsksNothingIsClosed) {
  ServerLimits limits;
  limits.head_timeout = std::chrono::milliseconds(10);
  H2Pair pair(answer_echo, limits);
  pair.run([] { return false; });
  EXPECT_TRUE(pair.client->ended);
}

// The attacks. Each must end in GOAWAY with ENHANCE_YOUR_CALM, and without it the client would go on for
// ever.
void expect_calm(H2Pair& pair, std::function<void()> attack) {
  pair.run([&] {
    if (!pair.client->goaway) attack();
    return false;
  });
  EXPECT_TRUE(pair.client->ended);
  EXPECT_EQ(pair.client->goaway, static_cast<std::uint32_t>(NGHTTP2_ENHANCE_YOUR_CALM));
}

TEST(Http2Attack, PingFlood) {
  H2Pair pair(answer_echo);
  expect_calm(pair, [&] {
    for (int i = 0; i < 50; ++i) nghttp2_submit_ping(pair.client->session, 0, nullptr);
  });
}

TEST(Http2Attack, SettingsFlood) {
  H2Pair pair(answer_echo);
  expect_calm(pair, [&] {
    for (int i = 0; i < 50; ++i) nghttp2_submit_settings(pair.client->session, 0, nullptr, 0);
  });
}

// Frames written by hand, which no client library would send.
std::string frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream, std::string_view payload) {
  std::string out;
  for (int shift = 16; shift >= 0; shift -= 8) out += static_cast<char>(payload.size() >> shift & 0xff);
  out += static_cast<char>(type);
  out += static_cast<char>(flags);
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(stream >> shift & 0xff);
  return out + std::string(payload);
}
const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "");
// HPACK: GET, http, "/", authority "x" with the static table.
const std::string kGetHead = "\x82\x86\x84\x41\x01x";

struct RawOutcome {
  std::string received;
  std::size_t sent = 0;
  std::size_t handled = 0;
};

RawOutcome send_frames(std::string start, std::string repeated, int times) {
  asio::io_context loop;
  auto [client, server] = net::stream_pair(loop.get_executor());
  RawOutcome out;
  ServerLimits limits;
  Handler handler = [&out](Exchange& exchange) -> Task<> {
    ++out.handled;
    co_await exchange.wait_client_gone();
  };
  auto writer = [](net::Stream& stream, std::string first, std::string again, int n,
                   RawOutcome& o) -> Task<> {
    if (!(co_await stream.write_all(first)).ok()) co_return;
    for (int i = 0; i < n; ++i) {
      if (!(co_await stream.write_all(again)).ok()) co_return;
      ++o.sent;
    }
    (void)co_await stream.shutdown_write();
  };
  auto reader = [](net::Stream& stream, RawOutcome& o) -> Task<> {
    char buffer[4096];
    for (;;) {
      auto count = co_await stream.read_some(buffer);
      if (!count.ok() || *count == 0) break;
      o.received.append(buffer, *count);
    }
    stream.close();
  };
  asio::co_spawn(loop, serve_http2(std::move(server), "", false, limits, handler), asio::detached);
  asio::co_spawn(loop, writer(*client, std::move(start), std::move(repeated), times, out), asio::detached);
  asio::co_spawn(loop, reader(*client, out), asio::detached);
  loop.run();
  return out;
}

// The error code of the GOAWAY among the frames that the server sent.
std::optional<std::uint32_t> goaway_of(std::string_view bytes) {
  while (bytes.size() >= 9) {
    auto byte = [&](std::size_t i) {
      return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i]));
    };
    std::size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
    if (bytes.size() < 9 + size) break;
    if (byte(3) == 7) return byte(13) << 24 | byte(14) << 16 | byte(15) << 8 | byte(16);
    bytes.remove_prefix(9 + size);
  }
  return std::nullopt;
}

TEST(Http2Attack, RapidReset) {
  std::string all = kPreface;
  for (std::uint32_t id = 1; id < 4001; id += 2) {
    all += frame(1, 5, id, kGetHead);
    all += frame(3, 0, id, std::string("\0\0\0\x08", 4));  // CANCEL
  }
  auto out = send_frames(all, "", 0);
  EXPECT_EQ(goaway_of(out.received), static_cast<std::uint32_t>(NGHTTP2_ENHANCE_YOUR_CALM));
  EXPECT_LT(out.handled, 1000u);
}

TEST(Http2Attack, EmptyDataFlood) {
  auto out = send_frames(kPreface + frame(1, 4, 1, "\x83\x86\x84\x41\x01x"), frame(0, 0, 1, ""), 100'000);
  EXPECT_EQ(goaway_of(out.received), static_cast<std::uint32_t>(NGHTTP2_ENHANCE_YOUR_CALM));
  EXPECT_LT(out.sent, 100'000u);
}

TEST(Http2Attack, ContinuationFlood) {
  auto out = send_frames(kPreface + frame(1, 0, 1, kGetHead),
                         frame(9, 0, 1,
                               std::string("\x00\x01"
                                           "a\x01"
                                           "b",
                                           5)),
                         100'000);
  EXPECT_TRUE(goaway_of(out.received).value_or(0) != 0);
  EXPECT_EQ(out.handled, 0u);
  EXPECT_LT(out.sent, 100'000u);
}

// A field of 4,000 bytes goes into the table once; each further byte of the head then stands for it again.
TEST(Http2Attack, HpackBomb) {
  std::string field = std::string(
                          "\x40\x01"
                          "a\x7f\xa1\x1e",
                          6) +
                      std::string(4000, 'x');
  std::string bomb = kGetHead + field + std::string(16'000 - field.size(), '\xbe');
  auto out = send_frames(kPreface + frame(1, 5, 1, bomb), frame(6, 0, 0, "12345678"), 1);
  EXPECT_EQ(out.handled, 0u);
  EXPECT_LT(out.received.size(), 10'000u);
}

// "MadeYouReset": the client provokes resets by frames that are invalid for the stream.
TEST(Http2Attack, ProvokedResets) {
  std::string all = kPreface;
  for (std::uint32_t id = 1; id < 4001; id += 2) {
    all += frame(1, 5, id, kGetHead);
    all += frame(8, 0, id, "\x7f\xff\xff\xff");  // WINDOW_UPDATE beyond what a window can be
  }
  auto out = send_frames(all, "", 0);
  EXPECT_EQ(goaway_of(out.received), static_cast<std::uint32_t>(NGHTTP2_ENHANCE_YOUR_CALM));
  EXPECT_LT(out.handled, 1000u);
}

TEST(Http2Attack, PriorityFlood) {
  auto out = send_frames(kPreface, frame(2, 0, 1, std::string("\0\0\0\0\x10", 5)), 100'000);
  EXPECT_EQ(goaway_of(out.received), static_cast<std::uint32_t>(NGHTTP2_ENHANCE_YOUR_CALM));
}

TEST(Http2Attack, GarbageIsNotAnHttp2Connection) {
  auto out = send_frames("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "", 0);
  EXPECT_EQ(out.handled, 0u);
}

}  // namespace
}  // namespace atl::http
