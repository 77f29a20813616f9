// SPDX-License-Identifier: Apache-2.0
//
// The HTTP/2 client against our server, and against peers that send whatever a test wants.
#include "http/h2/client.h"

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <array>

#include "http/h2/server.h"
#include "net/tcp.h"

namespace atl::http {
namespace {

namespace asio = async::asio;

RequestHead request(std::string method = "GET", std::string target = "/") {
  RequestHead head;
  head.method = std::move(method);
  head.target = std::move(target);
  head.authority = "x.example";
  head.secure = true;
  return head;
}

// A loop on which a test's task runs against a peer; ends the client when the task is over.
struct Bench {
  asio::io_context loop;
  async::Scope scope{loop.get_executor()};
  std::shared_ptr<H2Client> client;
  bool done = false;

  using Script = std::function<Task<>(Bench&)>;

  void connect(net::StreamPtr stream, H2ClientLimits limits = {}) {
    auto made = make_h2_client(scope, loop.get_executor(), std::move(stream), limits);
    ASSERT_TRUE(made.ok());
    client = *made;
  }
  void run(const Script& script) {
    asio::co_spawn(loop, play(script), asio::detached);
    loop.run();
    EXPECT_TRUE(done) << "the test's task hangs";
  }
  Task<> play(const Script& script) {
    co_await script(*this);
    if (client) client->close_idle();
    client.reset();
    co_await scope.join();
    done = true;
  }
};

struct Served : Bench {
  ServerLimits server_limits;
  Handler handler;
  Drain drain;
  explicit Served(Handler h, H2ClientLimits limits = {}) : handler(std::move(h)) {
    auto [a, b] = net::stream_pair(loop.get_executor());
    asio::co_spawn(loop, serve_http2(std::move(b), "", true, server_limits, handler, &drain), asio::detached);
    connect(std::move(a), limits);
  }
};

Task<> answer_echo(Exchange& exchange) {
  auto body = co_await exchange.read_all(64 << 20);
  ResponseHead head;
  head.headers.add("x-method", exchange.request().method);
  head.headers.add("x-target", exchange.request().target);
  for (const auto& field : exchange.request_trailers())
    head.headers.add("x-trailer-" + field.name, field.value);
  auto text = body.ok() ? *body : body.error().message();
  (void)co_await exchange.respond(std::move(head), std::move(text));
}

TEST(Http2Client, CarriesManyRequestsOnOneConnection) {
  Served bench(answer_echo);
  int answered = 0;
  auto one = [&answered](std::shared_ptr<H2Client> client, int i) -> Task<> {
    auto answer = co_await fetch(client, request("POST", "/" + std::to_string(i)), "body", 1000);
    EXPECT_TRUE(answer.ok());
    if (!answer.ok()) co_return;
    EXPECT_EQ(answer->head.headers.find("x-target"), "/" + std::to_string(i));
    EXPECT_EQ(answer->body, "body");
    ++answered;
  };
  bench.run([&one](Bench& b) -> Task<> {
    async::Scope all(b.loop.get_executor());
    for (int i = 0; i < 50; ++i) all.spawn("one", one(b.client, i));
    co_await all.join();
  });
  EXPECT_EQ(answered, 50);
}

TEST(Http2Client, LargeBodiesFlowBothWays) {
  Served bench(answer_echo);
  bench.run([](Bench& b) -> Task<> {
    std::string big(20'000'000, 'b');
    // The echo comes when all has been sent: no deadlock although both windows are far smaller.
    auto answer = co_await fetch(b.client, request("POST"), big, 1 << 26);
    EXPECT_TRUE(answer.ok() && answer->body == big);
  });
}

TEST(Http2Client, HeadAnswersAndEmptyAnswersHaveNoBody) {
  Served bench(answer_echo);
  bench.run([](Bench& b) -> Task<> {
    auto answer = co_await fetch(b.client, request("HEAD"), "", 10);
    EXPECT_TRUE(answer.ok() && answer->body.empty());
    EXPECT_EQ(answer->head.status, 200);
  });
}

TEST(Http2Client, TrailersPassBothWays) {
  Handler handler = [](Exchange& exchange) -> Task<> {
    auto body = co_await exchange.read_all(100);
    EXPECT_TRUE(body.ok());
    EXPECT_EQ(exchange.request_trailers().find("x-sum"), "42");
    EXPECT_EQ(exchange.request_trailers().find("content-length"), std::nullopt);
    ResponseHead head;
    head.headers.add("content-type", "application/grpc");
    EXPECT_TRUE((co_await exchange.send_head(std::move(head))).ok());
    EXPECT_TRUE((co_await exchange.write("message")).ok());
    Headers trailers{{"grpc-status", "0"}, {"set-cookie", "never=1"}};
    exchange.set_trailers(std::move(trailers));
    EXPECT_TRUE((co_await exchange.finish()).ok());
  };
  Served bench(handler);
  bench.run([](Bench& b) -> Task<> {
    auto head = request("POST");
    head.has_body = true;
    head.headers.add("te", "trailers");
    auto exchange = co_await b.client->start(head);
    EXPECT_TRUE(exchange.ok());
    EXPECT_TRUE((co_await (*exchange)->write_body("abc")).ok());
    Headers trailers{{"x-sum", "42"}};
    (*exchange)->set_trailers(std::move(trailers));
    EXPECT_TRUE((co_await (*exchange)->finish_body()).ok());
    EXPECT_TRUE((co_await (*exchange)->read_head()).ok());
    auto body = co_await (*exchange)->read_all(100);
    EXPECT_TRUE(body.ok() && *body == "message");
    EXPECT_EQ((*exchange)->trailers().find("grpc-status"), "0");
    EXPECT_EQ((*exchange)->trailers().size(), 1u);
  });
}

// gateway.md, report 33: who leaves must not let the peer go on generating.
TEST(Http2Client, DroppingAnExchangeCancelsTheStreamAtThePeer) {
  bool gone = false;
  Handler handler = [&gone](Exchange& exchange) -> Task<> {
    ResponseHead head;
    (void)co_await exchange.send_head_and(std::move(head), "first");
    co_await exchange.wait_client_gone();
    gone = true;
  };
  Served bench(handler);
  bench.run([](Bench& b) -> Task<> {
    auto exchange = co_await b.client->start(request());
    EXPECT_TRUE((co_await (*exchange)->read_head()).ok());
    exchange->reset();
    EXPECT_EQ(b.client->active(), 1u);  // until the reset is on its way
    auto other = co_await fetch(b.client, request("HEAD"), "", 10);
    (void)other;
  });
  EXPECT_TRUE(gone);
}

TEST(Http2Client, ASlowReaderHoldsItsOwnStreamOnly) {
  std::size_t written = 0;
  Handler handler = [&written](Exchange& exchange) -> Task<> {
    if (exchange.request().target != "/big") co_return co_await answer_echo(exchange);
    ResponseHead head;
    (void)co_await exchange.send_head(std::move(head));
    std::string part(100'000, 'x');
    for (int i = 0; i < 100; ++i) {
      if (!(co_await exchange.write(part)).ok()) co_return;
      written += part.size();
    }
    (void)co_await exchange.finish();
  };
  Served bench(handler);
  bench.run([&written](Bench& b) -> Task<> {
    auto slow = co_await b.client->start(request("GET", "/big"));
    EXPECT_TRUE((co_await (*slow)->read_head()).ok());
    for (int i = 0; i < 5; ++i) {
      auto other = co_await fetch(b.client, request("GET", "/small"), "", 100);
      EXPECT_TRUE(other.ok());
    }
    // The stream's window, and what the sockets between hold; not the ten million.
    EXPECT_LT(written, 4'000'000u);
    auto all = co_await (*slow)->read_all(20'000'000);
    EXPECT_TRUE(all.ok() && all->size() == 10'000'000);
  });
}

// Many large answers at once, each read in small steps.
TEST(Http2Client, AnswersStayInTheShareOfTheirUser) {
  static constexpr std::size_t kMost = 1 << 20, kBody = 400'000;
  FairShare memory(64 << 20, kMost);
  Handler large = [](Exchange& exchange) -> Task<> {
    (void)co_await exchange.respond(ResponseHead(), std::string(kBody, 'x'));
  };
  H2ClientLimits limits;
  limits.memory = memory.of("a");
  Served bench(large, limits);
  std::size_t most = 0;
  int whole = 0;
  auto one = [&](std::shared_ptr<H2Client> client) -> Task<> {
    auto exchange = co_await client->start(request());
    EXPECT_TRUE(exchange.ok() && (co_await (*exchange)->read_head()).ok());
    if (!exchange.ok()) co_return;
    std::array<char, 1000> buffer;
    std::size_t count = 0;
    while (true) {
      auto got = co_await (*exchange)->read_body(buffer);
      if (!got.ok() || *got == 0) break;
      count += *got;
      most = std::max(most, memory.used());
      co_await async::yield();
    }
    if (count == kBody) ++whole;
  };
  bench.run([&one](Bench& b) -> Task<> {
    async::Scope all(b.loop.get_executor());
    for (int i = 0; i < 20; ++i) all.spawn("one", one(b.client));
    co_await all.join();
  });
  EXPECT_EQ(whole, 20);
  EXPECT_LE(most, kMost);
  EXPECT_GT(most, kMost / 2);
  EXPECT_EQ(memory.used(), 0u);
}

TEST(Http2Client, APeerThatIsSilentEndsWithDeadline) {
  Handler handler = [](Exchange& exchange) -> Task<> { co_await exchange.wait_client_gone(); };
  Served bench(handler);
  bench.run([](Bench& b) -> Task<> {
    auto exchange = co_await b.client->start(request());
    (*exchange)->set_idle_limit(std::chrono::milliseconds(5));
    auto head = co_await (*exchange)->read_head();
    EXPECT_EQ(head.error().code(), Code::kDeadline);
  });
}

TEST(Http2Client, AnIdleConnectionSaysGoodbye) {
  H2ClientLimits limits;
  limits.idle_timeout = std::chrono::milliseconds(5);
  Served bench(answer_echo, limits);
  bench.run([](Bench& b) -> Task<> {
    while (b.client->usable()) co_await async::yield();
  });
}

TEST(Http2Client, RefusesWhatHttp2CannotCarry) {
  Served bench(answer_echo);
  bench.run([](Bench& b) -> Task<> {
    auto upgrade = request();
    upgrade.headers.add("upgrade", "websocket");
    auto first = co_await b.client->start(upgrade);
    EXPECT_EQ(first.error().code(), Code::kUnsupported);
    auto connect = co_await b.client->start(request("CONNECT"));
    EXPECT_EQ(connect.error().code(), Code::kUnsupported);
    auto split = request();
    split.headers.add("x", "a\r\nb: c");
    auto third = co_await b.client->start(split);
    EXPECT_EQ(third.error().code(), Code::kInvalid);
  });
}

// A peer made of an nghttp2 server session, so that it can misbehave.
struct Peer {
  net::StreamPtr stream;
  nghttp2_session* session = nullptr;
  std::vector<std::int32_t> requests;
  std::string raw;  // bytes to send as they are
  std::function<void(Peer&, std::int32_t)> on_request;
  std::function<void(Peer&)> on_start;

  ~Peer() { nghttp2_session_del(session); }

  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto& self = *static_cast<Peer*>(user);
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    self.requests.push_back(frame->hd.stream_id);
    if (self.on_request) self.on_request(self, frame->hd.stream_id);
    return 0;
  }

  Task<> run() {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    nghttp2_option_set_no_http_messaging(option, 1);
    nghttp2_session_server_new2(&session, callbacks, this, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session, 0, nullptr, 0);
    if (on_start) on_start(*this);
    std::string buffer(64 * 1024, '\0');
    for (;;) {
      std::string out;
      for (;;) {
        const std::uint8_t* data = nullptr;
        auto size = nghttp2_session_mem_send(session, &data);
        if (size <= 0) break;
        out.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
      }
      out += std::exchange(raw, {});
      if (!out.empty() && !(co_await stream->write_all(out)).ok()) co_return;
      auto count = co_await stream->read_some(buffer);
      if (!count.ok() || *count == 0) co_return;
      if (nghttp2_session_mem_recv(session, reinterpret_cast<const std::uint8_t*>(buffer.data()), *count) < 0)
        co_return;
    }
  }

  void answer(std::int32_t id, std::vector<std::pair<std::string, std::string>> fields, bool end = true) {
    std::vector<nghttp2_nv> list;
    for (auto& [name, value] : fields) {
      auto bytes = [](std::string& s) { return reinterpret_cast<std::uint8_t*>(s.data()); };
      list.push_back({bytes(name), bytes(value), name.size(), value.size(), 0});
    }
    nghttp2_submit_headers(session, static_cast<std::uint8_t>(end ? NGHTTP2_FLAG_END_STREAM : 0), id, nullptr,
                           list.data(), list.size(), nullptr);
  }
};

std::string frame(int type, int flags, std::uint32_t stream, std::string_view payload) {
  std::string out;
  for (int shift : {16, 8, 0}) out += static_cast<char>(payload.size() >> shift);
  out += static_cast<char>(type);
  out += static_cast<char>(flags);
  for (int shift : {24, 16, 8, 0}) out += static_cast<char>(stream >> shift);
  return out.append(payload);
}

// What a request to such a peer ends with.
struct Ended {
  std::optional<Result<Answer>> answer;
  bool usable = true;
};
Ended ask(Peer& peer, RequestHead head = request(), H2ClientLimits limits = {}) {
  Bench bench;
  auto [a, b] = net::stream_pair(bench.loop.get_executor());
  peer.stream = std::move(b);
  asio::co_spawn(bench.loop, peer.run(), asio::detached);
  bench.connect(std::move(a), limits);
  Ended out;
  bench.run([&out, &head](Bench& b2) -> Task<> {
    out.answer.emplace(co_await fetch(b2.client, head, "", 1000));
    out.usable = b2.client->usable();
  });
  // The stream belongs to this loop.
  peer.stream->close();
  bench.loop.restart();
  bench.loop.poll();
  peer.stream.reset();
  return out;
}

TEST(Http2Client, SkipsInterimAnswers) {
  Peer peer;
  peer.on_request = [](Peer& p, std::int32_t id) {
    p.answer(id, {{":status", "103"}, {"link", "x"}}, false);
    p.answer(id, {{":status", "204"}, {"x-final", "1"}});
  };
  auto got = ask(peer);
  ASSERT_TRUE(got.answer->ok()) << got.answer->error().message();
  EXPECT_EQ((*got.answer)->head.status, 204);
  EXPECT_EQ((*got.answer)->head.headers.find("link"), std::nullopt);
  EXPECT_EQ((*got.answer)->head.headers.find("x-final"), "1");
}

TEST(Http2Client, SaysWhenARequestWasSurelyNotProcessed) {
  Peer refused;
  refused.on_request = [](Peer& p, std::int32_t id) {
    nghttp2_submit_rst_stream(p.session, 0, id, NGHTTP2_REFUSED_STREAM);
  };
  EXPECT_EQ(ask(refused).answer->error().word(), kNotProcessed);

  Peer leaving;
  leaving.on_request = [](Peer& p, std::int32_t) {
    nghttp2_submit_goaway(p.session, 0, 0, NGHTTP2_NO_ERROR, nullptr, 0);
  };
  auto got = ask(leaving);
  EXPECT_EQ(got.answer->error().word(), kNotProcessed);
  EXPECT_FALSE(got.usable);

  Peer cancelled;
  cancelled.on_request = [](Peer& p, std::int32_t id) {
    nghttp2_submit_rst_stream(p.session, 0, id, NGHTTP2_INTERNAL_ERROR);
  };
  EXPECT_NE(ask(cancelled).answer->error().word(), kNotProcessed);
}

// gateway.md, report 28: a stream that is cut off is never a clean end.
TEST(Http2Client, AResetInTheMiddleOfABodyIsAnError) {
  Peer peer;
  peer.on_request = [](Peer& p, std::int32_t id) {
    p.answer(id, {{":status", "200"}}, false);
    p.raw = frame(NGHTTP2_RST_STREAM, 0, static_cast<std::uint32_t>(id), std::string("\0\0\0\0", 4));
  };
  auto got = ask(peer);
  ASSERT_FALSE(got.answer->ok());
  EXPECT_EQ(got.answer->error().code(), Code::kUnavailable);
}

TEST(Http2Client, HostilePeersEndTheConnection) {
  struct Hostile {
    const char* name;
    std::function<void(Peer&, std::int32_t)> act;
  };
  std::string many;
  for (int i = 0; i < 1000; ++i) many += frame(NGHTTP2_PING, 0, 0, "12345678");
  std::string settings;
  for (int i = 0; i < 1000; ++i) settings += frame(NGHTTP2_SETTINGS, 0, 0, "");
  std::string empty_data, priority;
  for (int i = 0; i < 1000; ++i) empty_data += frame(NGHTTP2_DATA, 0, 1, "");
  for (int i = 0; i < 1000; ++i) priority += frame(NGHTTP2_PRIORITY, 0, 1, std::string("\0\0\0\3\1", 5));
  std::string continuation = frame(NGHTTP2_HEADERS, 0, 1, "\x88");
  for (int i = 0; i < 100; ++i) continuation += frame(NGHTTP2_CONTINUATION, 0, 1, std::string("\0\1a\1b", 5));
  std::string resets;
  for (int i = 0; i < 1000; ++i) resets += frame(NGHTTP2_RST_STREAM, 0, 1, std::string("\0\0\0\2", 4));
  std::vector<Hostile> all = {
      {"pings", [&](Peer& p, std::int32_t) { p.raw = many; }},
      {"settings", [&](Peer& p, std::int32_t) { p.raw = settings; }},
      {"empty data",
       [&](Peer& p, std::int32_t id) {
         p.answer(id, {{":status", "200"}}, false);
         p.raw = empty_data;
       }},
      {"priorities", [&](Peer& p, std::int32_t) { p.raw = priority; }},
      {"continuations", [&](Peer& p, std::int32_t) { p.raw = continuation; }},
      {"resets", [&](Peer& p, std::int32_t) { p.raw = resets; }},
      {"push",
       [&](Peer& p, std::int32_t) {
         p.raw = frame(NGHTTP2_PUSH_PROMISE, 4, 1, std::string("\0\0\0\2\x82", 5));
       }},
      {"not http/2", [&](Peer& p, std::int32_t) { p.raw = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"; }},
  };
  for (const auto& hostile : all) {
    Peer peer;
    peer.on_request = hostile.act;
    auto got = ask(peer);
    ASSERT_FALSE(got.answer->ok()) << hostile.name;
    EXPECT_FALSE(got.usable) << hostile.name;
  }
}

TEST(Http2Client, MalformedAnswersEndTheirStream) {
  std::vector<std::vector<std::pair<std::string, std::string>>> heads = {
      {{":status", "099"}},
      {{":status", "101"}},
      {{":status", "600"}},
      {{":status", "2x0"}},
      {{"x", "y"}},
      {{":status", "200"}, {":status", "200"}},
      {{":status", "200"}, {"connection", "close"}},
      {{":status", "200"}, {"transfer-encoding", "chunked"}},
      {{":status", "200"}, {"x", "a\r\nb"}},
      {{":status", "200"}, {"content-length", "5"}},
      {{":status", "200"}, {"content-length", "0"}, {"content-length", "1"}},
      {{":status", "200"}, {"x", std::string(40'000, 'y')}},
  };
  heads.emplace_back();
  heads.back().emplace_back(":status", "200");
  for (int i = 0; i < 200; ++i) heads.back().emplace_back("x" + std::to_string(i), "y");
  for (const auto& fields : heads) {
    Peer peer;
    peer.on_request = [&fields](Peer& p, std::int32_t id) { p.answer(id, fields); };
    H2ClientLimits limits;
    limits.head_bytes = 30'000;
    auto got = ask(peer, request(), limits);
    EXPECT_FALSE(got.answer->ok()) << fields.back().first << " " << fields.back().second.substr(0, 20);
  }
}

TEST(Http2Client, TooManyInterimAnswersAreRefused) {
  Peer peer;
  peer.on_request = [](Peer& p, std::int32_t id) {
    for (int i = 0; i < 20; ++i) p.answer(id, {{":status", "100"}}, false);
    p.answer(id, {{":status", "200"}});
  };
  EXPECT_EQ(ask(peer).answer->error().code(), Code::kCorrupt);
}

TEST(Http2Client, StaysBelowThePeersLimitOfStreams) {
  Bench bench;  // outlives the peer's stream
  Peer peer;
  peer.on_start = [](Peer& p) {
    nghttp2_settings_entry one{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1};
    nghttp2_submit_settings(p.session, 0, &one, 1);
  };
  peer.on_request = [](Peer& p, std::int32_t id) {
    if (p.requests.size() == 1) p.answer(id, {{":status", "204"}});
  };
  auto [a, b] = net::stream_pair(bench.loop.get_executor());
  peer.stream = std::move(b);
  asio::co_spawn(bench.loop, peer.run(), asio::detached);
  bench.connect(std::move(a));
  bench.run([](Bench& b2) -> Task<> {
    EXPECT_TRUE((co_await fetch(b2.client, request(), "", 10)).ok());
    auto held = co_await b2.client->start(request());
    EXPECT_TRUE(held.ok());
    EXPECT_FALSE(b2.client->usable());
    auto third = co_await b2.client->start(request());
    EXPECT_EQ(third.error().word(), kNotProcessed);
  });
}

}  // namespace
}  // namespace atl::http
