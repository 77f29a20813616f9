// SPDX-License-Identifier: Apache-2.0
//
// The client against our server, and against peers that say whatever a test wants.
#include "http/client.h"

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "async/event.h"
#include "async/scope.h"
#include "http/http1_for_test.h"

namespace atl::http {
namespace {

using namespace testing;

// A peer that serves each connection with the next script: it reads until it has seen `expect` bytes' worth
// of heads (an empty line), sends the script, and closes.
struct Peer {
  asio::io_context loop;
  std::vector<std::string> scripts;
  std::size_t connections = 0;
  std::vector<std::string> received;
  bool keep_open = false;

  Connector connector() {
    return [this]() { return connect(); };
  }
  Task<Result<net::StreamPtr>> connect() {
    auto [ours, theirs] = net::stream_pair(loop.get_executor());
    auto index = connections++;
    received.emplace_back();
    asio::co_spawn(loop, play(std::move(theirs), index), asio::detached);
    co_return std::move(ours);
  }
  Task<> play(net::StreamPtr stream, std::size_t index) {
    char buffer[4096];
    std::size_t answered = 0;
    while (index < scripts.size()) {
      auto count = co_await stream->read_some(buffer);
      if (!count.ok() || *count == 0) co_return;
      received[index].append(buffer, *count);
      if (count_of(received[index], "\r\n\r\n") > answered) {
        ++answered;
        (void)co_await stream->write_all(scripts[index]);
        if (!keep_open) co_return;
      }
    }
  }
};

RequestHead get(std::string target = "/") {
  RequestHead head;
  head.method = "GET";
  head.target = std::move(target);
  head.authority = "x";
  return head;
}

Task<> fetch_into(std::shared_ptr<Client> client, RequestHead request, std::string body,
                  std::optional<Result<Answer>>& out) {
  out.emplace(co_await fetch(client, std::move(request), std::move(body), 1 << 20));
}

Result<Answer> fetch_from(Peer& peer, std::string script, RequestHead request = get(),
                          ClientLimits limits = {}) {
  peer.scripts.push_back(std::move(script));
  auto client = make_client(peer.connector(), limits);
  std::optional<Result<Answer>> out;
  asio::co_spawn(peer.loop, fetch_into(client, std::move(request), "", out), asio::detached);
  peer.loop.run();
  client->close_idle();
  return *out;
}

TEST(Http1Client, ReadsABodyByItsLength) {
  Peer peer;
  auto got = fetch_from(peer, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-A: b\r\n\r\nabc");
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->body, "abc");
  EXPECT_EQ(got->head.headers.find("x-a"), "b");
  EXPECT_EQ(peer.received[0], "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
}

TEST(Http1Client, ReadsAChunkedBody) {
  Peer peer;
  auto got = fetch_from(
      peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->body, "abcde");
}

TEST(Http1Client, ReadsABodyThatEndsWithTheConnection) {
  Peer peer;
  auto got = fetch_from(peer, "HTTP/1.0 200 OK\r\n\r\nall of it");
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->body, "all of it");
}

TEST(Http1Client, SkipsInterimAnswers) {
  Peer peer;
  auto got = fetch_from(
      peer, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 204 No\r\n\r\n");
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->head.status, 204);
}

TEST(Http1Client, HeadAnswersHaveNoBody) {
  Peer peer;
  auto request = get();
  request.method = "HEAD";
  auto got = fetch_from(peer, "HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n", request);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->body, "");
}

struct BadAnswer {
  const char* name;
  std::string bytes;
  Code code;
};
class Http1ClientRefuses : public ::testing::TestWithParam<BadAnswer> {};
TEST_P(Http1ClientRefuses, TheAnswer) {
  Peer peer;
  auto got = fetch_from(peer, GetParam().bytes);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code(), GetParam().code) << got.error().message();
}

std::string interim(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += "HTTP/1.1 100 Continue\r\n\r\n";
  return out + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
}
std::string answer_with(const std::string& fields) {
  return "HTTP/1.1 200 OK\r\n" + fields + "\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
}

INSTANTIATE_TEST_SUITE_P(
    All, Http1ClientRefuses,
    ::testing::Values(
        BadAnswer{"BothLengths", answer_with("Content-Length: 3\r\nTransfer-Encoding: chunked"),
                  Code::kCorrupt},
        BadAnswer{"DuplicateLength", answer_with("Content-Length: 3\r\nContent-Length: 3"), Code::kCorrupt},
        BadAnswer{"ListOfLengths", answer_with("Content-Length: 3, 3"), Code::kCorrupt},
        BadAnswer{"OtherCoding", answer_with("Transfer-Encoding: gzip, chunked"), Code::kCorrupt},
        BadAnswer{"CodingInHttp10", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                  Code::kCorrupt},
        BadAnswer{"FoldedLine", answer_with("a: b\r\n c"), Code::kCorrupt},
        BadAnswer{"BareLineFeed", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", Code::kCorrupt},
        BadAnswer{"SpaceBeforeColon", answer_with("Content-Length : 3"), Code::kCorrupt},
        BadAnswer{"NotHttp", "SSH-2.0-OpenSSH_9.2\r\n\r\n", Code::kCorrupt},
        BadAnswer{"Http2", "HTTP/2 200 OK\r\n\r\n", Code::kCorrupt},
        BadAnswer{"StatusTooHigh", "HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n", Code::kCorrupt},
        BadAnswer{"StatusTooShort", "HTTP/1.1 20 X\r\nContent-Length: 0\r\n\r\n", Code::kCorrupt},
        BadAnswer{"TooManyInterimAnswers", interim(20), Code::kCorrupt},
        BadAnswer{"UnaskedSwitch", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", Code::kCorrupt},
        BadAnswer{"EndlessHead", "HTTP/1.1 200 OK\r\na: " + std::string(100'000, 'x'), Code::kCorrupt},
        BadAnswer{"TooManyFields",
                  [] {
                    std::string out = "HTTP/1.1 200 OK\r\n";
                    for (int i = 0; i < 200; ++i) out += "a: b\r\n";
                    return out + "\r\n";
                  }(),
                  Code::kCorrupt},
        BadAnswer{"ManyConnectionOptions",
                  "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: " + std::string(32, ',') + "\r\n\r\n",
                  Code::kCorrupt},
        BadAnswer{"BodyCutShort", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", Code::kUnavailable},
        BadAnswer{"ChunksCutShort", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
                  Code::kUnavailable},
        BadAnswer{"BadChunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", Code::kCorrupt},
        BadAnswer{"Nothing", "", Code::kUnavailable},
        BadAnswer{"HeadCutShort", "HTTP/1.1 200 OK\r\nConte", Code::kUnavailable}),
    [](const auto& p) { return std::string(p.param.name); });

TEST(Http1Client, ABodyBeyondTheLimitIsTooLarge) {
  Peer peer;
  auto got = fetch_from(peer, "HTTP/1.1 200 OK\r\n\r\n" + std::string(2 << 20, 'x'));
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code(), Code::kTooLarge);
}

Task<> fetch_twice(std::shared_ptr<Client> client, RequestHead second, std::string body,
                   std::vector<Result<Answer>>& out) {
  out.push_back(co_await fetch(client, get("/1"), "", 100));
  for (int i = 0; i < 8; ++i) co_await async::yield();
  out.push_back(co_await fetch(client, std::move(second), std::move(body), 100));
  client->close_idle();
}

const char* const kEmptyOk = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

TEST(Http1Client, KeepsTheConnectionForTheNextRequest) {
  Peer peer;
  peer.scripts = {kEmptyOk};
  peer.keep_open = true;
  auto client = make_client(peer.connector());
  std::vector<Result<Answer>> out;
  asio::co_spawn(peer.loop, fetch_twice(client, get("/2"), "", out), asio::detached);
  peer.loop.run();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_TRUE(out[0].ok() && out[1].ok());
  EXPECT_EQ(peer.connections, 1u);
}

TEST(Http1Client, AKeptConnectionThatHasDiedIsReplacedEvenForABody) {
  Peer peer;
  peer.scripts = {kEmptyOk, kEmptyOk};
  auto client = make_client(peer.connector());
  std::vector<Result<Answer>> out;
  auto post = get("/2");
  post.method = "POST";
  asio::co_spawn(peer.loop, fetch_twice(client, post, "body", out), asio::detached);
  peer.loop.run();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_TRUE(out[0].ok() && out[1].ok());
  EXPECT_EQ(peer.connections, 2u);
}

// The peer reads the second request on the kept connection and closes without a word, as one that was just
// about to close an idle connection does.
TEST(Http1Client, ARequestThatMeetsTheCloseOfAKeptConnectionIsRepeatedOnce) {
  asio::io_context loop;
  std::size_t connections = 0;
  auto play = [](net::StreamPtr stream, bool first) -> Task<> {
    char buffer[4096];
    (void)co_await stream->read_some(buffer);
    (void)co_await stream->write_all(kEmptyOk);
    if (first) (void)co_await stream->read_some(buffer);
  };
  Connector connector = [&]() -> Task<Result<net::StreamPtr>> {
    auto [ours, theirs] = net::stream_pair(loop.get_executor());
    asio::co_spawn(loop, play(std::move(theirs), connections++ == 0), asio::detached);
    co_return std::move(ours);
  };
  auto client = make_client(connector);
  std::vector<Result<Answer>> out;
  asio::co_spawn(loop, fetch_twice(client, get("/2"), "", out), asio::detached);
  loop.run();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_TRUE(out[1].ok());
  EXPECT_EQ(connections, 2u);
}

// A peer whose next connection is not made before the test says so.
struct SlowPeer {
  asio::io_context loop;
  async::Event changed{loop.get_executor()};
  int connections = 0;
  bool open = false;
  bool gone = false;  // the second connection has ended
  std::string second;

  Connector connector() {
    return [this]() -> Task<Result<net::StreamPtr>> {
      bool first = connections++ == 0;
      changed.notify_all();
      while (!first && !open) co_await changed.wait();
      auto [ours, theirs] = net::stream_pair(loop.get_executor());
      asio::co_spawn(loop, play(std::move(theirs), first), asio::detached);
      co_return std::move(ours);
    };
  }
  Task<> play(net::StreamPtr stream, bool first) {
    char buffer[4096];
    auto count = co_await stream->read_some(buffer);
    if (!first) {
      if (count.ok()) second.assign(buffer, *count);
      gone = true;
      co_return;
    }
    (void)co_await stream->write_all(kEmptyOk);
    (void)co_await stream->read_some(buffer);
  }
};

// Who closes an exchange whose dead connection is being replaced does not want the new one either.
TEST(Http1Client, AnExchangeThatIsClosedWhileItDialsAgainSendsNothing) {
  SlowPeer peer;
  auto client = make_client(peer.connector());
  std::optional<Result<ResponseHead>> head;
  auto read = [&](ClientExchange& exchange) -> Task<> { head.emplace(co_await exchange.read_head()); };
  auto run = [&]() -> Task<> {
    (void)co_await fetch(client, get("/1"), "", 100);
    auto exchange = *co_await client->start(get("/2"));
    async::Scope scope(peer.loop.get_executor());
    scope.spawn("read", read(*exchange));
    while (peer.connections < 2) co_await peer.changed.wait();
    exchange->close();
    peer.open = true;
    peer.changed.notify_all();
    co_await scope.join();
    client->close_idle();
  };
  asio::co_spawn(peer.loop, run(), asio::detached);
  peer.loop.run();
  ASSERT_TRUE(head && !head->ok());
  EXPECT_EQ(head->error().code(), Code::kCancelled);
  EXPECT_EQ(peer.second, "");
  EXPECT_TRUE(peer.gone);
}

// gateway.md, report 36: work that may have been done is not asked for again.
TEST(Http1Client, ARequestThatIsNotIdempotentIsNotRepeated) {
  asio::io_context loop;
  std::size_t connections = 0;
  auto play = [](net::StreamPtr stream) -> Task<> {
    char buffer[4096];
    (void)co_await stream->read_some(buffer);
    (void)co_await stream->write_all(kEmptyOk);
    (void)co_await stream->read_some(buffer);
  };
  Connector connector = [&]() -> Task<Result<net::StreamPtr>> {
    auto [ours, theirs] = net::stream_pair(loop.get_executor());
    ++connections;
    asio::co_spawn(loop, play(std::move(theirs)), asio::detached);
    co_return std::move(ours);
  };
  auto client = make_client(connector);
  std::vector<Result<Answer>> out;
  auto post = get("/2");
  post.method = "POST";
  asio::co_spawn(loop, fetch_twice(client, post, "", out), asio::detached);
  loop.run();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[1].error().code(), Code::kUnavailable);
  EXPECT_EQ(connections, 1u);
}

TEST(Http1Client, TrailersPassBothWays) {
  Peer peer;
  peer.scripts = {
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nGrpc-Status: 0\r\nHost: "
      "y\r\n\r\n"};
  auto client = make_client(peer.connector());
  auto run = [](std::shared_ptr<Client> c) -> Task<> {
    auto request = get();
    request.method = "POST";
    request.has_body = true;
    auto exchange = co_await c->start(request);
    Headers trailers{{"x-sum", "42"}, {"te", "never"}};
    (*exchange)->set_trailers(std::move(trailers));
    EXPECT_TRUE((co_await (*exchange)->finish_body()).ok());
    EXPECT_TRUE((co_await (*exchange)->read_head()).ok());
    EXPECT_TRUE((co_await (*exchange)->read_all(10)).ok());
    char more[4];
    auto again = co_await (*exchange)->read_body(more);
    EXPECT_TRUE(again.ok() && *again == 0);
    EXPECT_EQ((*exchange)->trailers().find("grpc-status"), "0");
    EXPECT_EQ((*exchange)->trailers().size(), 1u);
  };
  asio::co_spawn(peer.loop, run(client), asio::detached);
  peer.loop.run();
  client->close_idle();
  EXPECT_TRUE(peer.received[0].ends_with("\r\n\r\n0\r\nx-sum: 42\r\n\r\n")) << peer.received[0];
}

TEST(Http1Client, UnaskedBytesOnAKeptConnectionMakeItUnusable) {
  Peer peer;
  peer.scripts = {std::string(kEmptyOk) + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", kEmptyOk};
  peer.keep_open = true;
  auto client = make_client(peer.connector());
  std::vector<Result<Answer>> out;
  asio::co_spawn(peer.loop, fetch_twice(client, get("/2"), "", out), asio::detached);
  peer.loop.run();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_TRUE(out[1].ok());
  EXPECT_EQ(out[1]->body, "");
  EXPECT_EQ(peer.connections, 2u);
}

// The last bytes of the body are still being written when a complete answer is there. What follows on this
// connection would be taken for the rest of the body.
Task<> give_up_a_body_that_is_answered_early(std::shared_ptr<Client> client, std::vector<int>& statuses) {
  using namespace asio::experimental::awaitable_operators;
  std::string body(16 << 20, 'x');
  auto post = get();
  post.method = "POST";
  post.has_body = true;
  post.content_length = body.size();
  {
    auto exchange = std::move(co_await client->start(post)).value();
    auto answer = [](ClientExchange& one) -> Task<Result<ResponseHead>> {
      CO_TRY(auto head, co_await one.read_head());
      CO_TRY_VOID(co_await one.read_all(100));
      co_return head;
    };
    auto first = co_await (answer(*exchange) || exchange->write_body(body));
    statuses.push_back(std::get<0>(first).value().status);
  }
  auto second = co_await fetch(client, get("/2"), "", 100);
  if (second) statuses.push_back(second->head.status);
  client->close_idle();
}

TEST(Http1Client, AConnectionWithACutBodyIsNotUsedAgain) {
  asio::io_context loop;
  std::size_t connections = 0;
  auto play = [](net::StreamPtr stream) -> Task<> {
    char buffer[512];
    (void)co_await stream->read_some(buffer);
    (void)co_await stream->write_all(kEmptyOk);
    co_await stream->wait_closed();
  };
  Connector connector = [&]() -> Task<Result<net::StreamPtr>> {
    auto [ours, theirs] = net::stream_pair(loop.get_executor());
    asio::co_spawn(loop, play(std::move(theirs)), asio::detached);
    ++connections;
    co_return std::move(ours);
  };
  std::vector<int> statuses;
  auto client = make_client(connector);
  asio::co_spawn(loop, give_up_a_body_that_is_answered_early(client, statuses), asio::detached);
  loop.run_for(std::chrono::seconds(5));
  EXPECT_EQ(statuses, (std::vector{200, 200}));
  EXPECT_EQ(connections, 2u);
}

TEST(Http1Client, AnEarlyAnswerIsReadWhileTheBodyIsStillBeingSent) {
  asio::io_context loop;
  auto play = [](net::StreamPtr stream) -> Task<> {
    (void)co_await stream->write_all(
        "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
    (void)co_await stream->shutdown_write();
    co_await stream->wait_closed();
  };
  Connector connector = [&]() -> Task<Result<net::StreamPtr>> {
    auto [ours, theirs] = net::stream_pair(loop.get_executor());
    asio::co_spawn(loop, play(std::move(theirs)), asio::detached);
    co_return std::move(ours);
  };
  int status = 0;
  auto run = [](std::shared_ptr<Client> client, int& seen) -> Task<> {
    auto request = get();
    request.method = "POST";
    request.has_body = true;
    auto exchange = co_await client->start(std::move(request));
    EXPECT_TRUE(exchange.ok());
    auto upload = [](ClientExchange& e) -> Task<> {
      std::string much(8 << 20, 'x');
      EXPECT_FALSE((co_await e.write_body(much)).ok());
    };
    async::Scope scope(co_await asio::this_coro::executor);
    scope.spawn("upload", upload(**exchange));
    auto head = co_await (*exchange)->read_head();
    if (head.ok()) seen = head->status;
    (*exchange)->close();
    co_await scope.join();
  };
  asio::co_spawn(loop, run(make_client(connector), status), asio::detached);
  loop.run();
  EXPECT_EQ(status, 413);
}

TEST(Http1Client, ASwitchedConnectionIsHandedOverWithItsFirstBytes) {
  Peer peer;
  peer.scripts = {"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\nfirst"};
  std::string seen;
  auto run = [](std::shared_ptr<Client> client, std::string& out) -> Task<> {
    auto request = get();
    request.headers.add("upgrade", "echo");
    request.headers.add("connection", "upgrade");
    auto exchange = co_await client->start(std::move(request));
    auto head = co_await (*exchange)->read_head();
    EXPECT_EQ(head->status, 101);
    auto stream = (*exchange)->take_stream();
    char buffer[16];
    auto count = co_await stream->read_some(buffer);
    if (count.ok()) out.assign(buffer, *count);
  };
  asio::co_spawn(peer.loop, run(make_client(peer.connector()), seen), asio::detached);
  peer.loop.run();
  EXPECT_EQ(seen, "first");
}

// A peer that keeps the connection and says when it ends.
Task<> serve_until_end(net::StreamPtr stream, bool answers, bool& ended) {
  char buffer[4096];
  for (;;) {
    auto count = co_await stream->read_some(buffer);
    if (!count.ok() || *count == 0) break;
    if (answers) (void)co_await stream->write_all(kEmptyOk);
  }
  ended = true;
}

TEST(Http1Client, AKeptConnectionIsClosedAfterItsIdleTime) {
  asio::io_context loop;
  bool ended = false;
  Connector connector = [&]() -> Task<Result<net::StreamPtr>> {
    auto [ours, theirs] = net::stream_pair(loop.get_executor());
    asio::co_spawn(loop, serve_until_end(std::move(theirs), true, ended), asio::detached);
    co_return std::move(ours);
  };
  ClientLimits limits;
  limits.idle_timeout = std::chrono::milliseconds(10);
  auto client = make_client(connector, limits);
  std::optional<Result<Answer>> out;
  asio::co_spawn(loop, fetch_into(client, get(), "", out), asio::detached);
  loop.run();
  EXPECT_TRUE(out->ok());
  EXPECT_TRUE(ended);
}

TEST(Http1Client, APeerThatSaysNothingEndsWithDeadline) {
  asio::io_context loop;
  bool ended = false;
  Connector connector = [&]() -> Task<Result<net::StreamPtr>> {
    auto [ours, theirs] = net::stream_pair(loop.get_executor());
    asio::co_spawn(loop, serve_until_end(std::move(theirs), false, ended), asio::detached);
    co_return std::move(ours);
  };
  Code code = Code::kInternal;
  auto run = [](std::shared_ptr<Client> client, Code& seen) -> Task<> {
    auto exchange = co_await client->start(get());
    (*exchange)->set_idle_limit(std::chrono::milliseconds(10));
    auto head = co_await (*exchange)->read_head();
    if (!head.ok()) seen = head.error().code();
  };
  asio::co_spawn(loop, run(make_client(connector), code), asio::detached);
  loop.run();
  EXPECT_EQ(code, Code::kDeadline);
  EXPECT_TRUE(ended);
}

TEST(Http1Client, HeadsThatWouldSplitTheRequestAreNotSent) {
  Peer peer;
  auto bad_header = get();
  bad_header.headers.add("x", "a\r\nb: c");
  auto bad_target = get("/a b");
  auto bad_authority = get();
  bad_authority.authority = "a\r\nb: c";
  for (auto& request : {bad_header, bad_target, bad_authority}) {
    std::optional<Result<Answer>> out;
    peer.loop.restart();
    asio::co_spawn(peer.loop, fetch_into(make_client(peer.connector()), request, "", out), asio::detached);
    peer.loop.run();
    EXPECT_EQ(out->error().code(), Code::kInvalid);
  }
  EXPECT_EQ(peer.connections, 0u);
}

TEST(Http1Client, TalksToOurServerBothWays) {
  asio::io_context loop;
  ServerLimits limits;
  Handler handler = answer_echo;
  Connector connector = [&]() -> Task<Result<net::StreamPtr>> {
    auto [ours, theirs] = net::stream_pair(loop.get_executor());
    asio::co_spawn(loop, serve_http1(std::move(theirs), "", false, limits, handler), asio::detached);
    co_return std::move(ours);
  };
  auto request = get();
  request.method = "POST";
  std::string body(1'000'000, 'x');
  std::optional<Result<Answer>> out;
  auto client = make_client(connector);
  auto run = [](std::shared_ptr<Client> c, RequestHead r, std::string b,
                std::optional<Result<Answer>>& o) -> Task<> {
    co_await fetch_into(c, std::move(r), std::move(b), o);
    c->close_idle();
  };
  asio::co_spawn(loop, run(client, request, body, out), asio::detached);
  loop.run();
  ASSERT_TRUE(out->ok());
  EXPECT_EQ((*out)->body, body);
}

}  // namespace
}  // namespace atl::http
