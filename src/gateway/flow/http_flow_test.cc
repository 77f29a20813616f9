// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/http_flow.h"

#include "gateway/flow/flow_for_test.h"
#include "gateway/vault/credential_for_test.h"
#include "net/forwarding_stream.h"

namespace atl::gateway {
namespace {

using namespace testing;
using Kind = TestServer::Kind;

constexpr char kWithKey[] =
    R"({"id":"key","action":"allow","hosts":["api.example"],"credential":"aws","asSpelled":true})";

boost::json::object aws_config() {
  return {{"type", "aws_sigv4"}, {"access_key_id", "AKIDEXAMPLE"}, {"region", "r"}, {"service", "sqs"}};
}

// Lets everything else go on until it is so.
template <class Done>
Task<> until(Done done) {
  while (!done()) co_await async::yield();
}

// The body that came in two parts: between them the secret that it is signed with goes.
TEST(HttpFlow, ARequestThatSendsItsBodySlowlyKeepsNoSecretByThat) {
  FlowWorld gateway(kWithKey);
  TestServer front(gateway.world.scope, gateway.world.loop.get_executor(), Kind::kPlain, gateway.handler());
  std::string word;
  gateway.world.run([&](World& w) -> Task<> {
    vault::NewSecret secret{"aws", vault::Locked::copy_of("the-secret-key"), aws_config(), {}};
    auto made = co_await gateway.parts.vault.create("t", std::move(secret));
    EXPECT_TRUE(made.ok()) << made.error().message();
    auto route = w.route(front.port);
    route.tls = false;
    auto head = request("POST");
    head.has_body = true;
    head.content_length = 8;
    auto exchange = co_await w.upstream.start(std::move(route), std::move(head));
    EXPECT_TRUE(exchange.ok());
    if (!exchange.ok()) co_return;
    EXPECT_TRUE((co_await (*exchange)->write_body("half")).ok());
    co_await until([&] { return gateway.parts.held_bodies.used() > 0; });
    EXPECT_TRUE((co_await gateway.parts.vault.remove("t", "aws")).ok());
    EXPECT_TRUE((co_await (*exchange)->write_body("half")).ok());
    EXPECT_TRUE((co_await (*exchange)->finish_body()).ok());
    auto answer = co_await (*exchange)->read_head();
    EXPECT_TRUE(answer.ok());
    if (answer.ok()) word = answer->headers.find("x-atoll-rule").value_or("");
    front.close();
  });
  EXPECT_EQ(word, "credential_unusable");
}

TEST(HttpFlow, AJwtThatTheGatewaySignedIsFoundInAnAnswer) {
  FlowWorld gateway(kWithKey);
  std::string text;
  std::size_t places = 0;
  gateway.world.run([&](World&) -> Task<> {
    boost::json::object config{{"type", "jwt"}, {"algorithm", "HS256"}};
    vault::NewSecret secret{"jwt", vault::Locked::copy_of(std::string(32, 'k')), config, {}};
    EXPECT_TRUE((co_await gateway.parts.vault.create("t", std::move(secret))).ok());
    std::vector<vault::CredentialPtr> credentials{*gateway.parts.vault.use("t", "jwt")};
    auto tokens = co_await fetch_tokens(gateway.parts, credentials);
    EXPECT_TRUE(tokens.ok());
    if (!tokens.ok()) co_return;
    Inbound in{gateway.parts.registry.find("s"), "", authority("api.example:443")};
    auto injection = make_injection(gateway.parts, in, true, credentials, *tokens, {}, "", request());
    EXPECT_TRUE(injection.ok());
    if (!injection.ok()) co_return;
    text = injection->changes.headers.at(0).value.reveal();
    places = injection->patterns->replace(text);
  });
  EXPECT_EQ(places, 1u);
  EXPECT_EQ(text, "Bearer [jwt of atoll]");
}

TEST(PatternCache, IsBoundedByItsBytes) {
  PatternCache cache;
  std::size_t made = 0;
  for (int i = 0; made < 2 * PatternCache::kMostBytes; ++i) {
    auto id = fmt::format("sec_{}", i);
    auto one = vault::credential({{"type", "bearer"}}, random_hex(vault::kMaxSearched / 2), id);
    auto patterns = cache.of(id, {one}, {});
    EXPECT_EQ(cache.of(id, {one}, {}), patterns);
    made += patterns->bytes();
    ASSERT_LE(cache.bytes(), PatternCache::kMostBytes);
  }
}

// A name says nothing about a rule for addresses; where the request has gone does.
class CountedStream final : public net::ForwardingStream {
 public:
  CountedStream(net::StreamPtr inner, int& writes) : ForwardingStream(std::move(inner)), writes_(writes) {}
  Task<Result<void>> write_all(std::string_view data) override {
    ++writes_;
    return inner().write_all(data);
  }
  Task<Result<void>> write_all(std::string_view first, std::string_view second) override {
    ++writes_;
    return inner().write_all(first, second);
  }
  Task<Result<void>> write_all(std::string_view first, std::string_view second,
                               std::string_view third) override {
    ++writes_;
    return inner().write_all(first, second, third);
  }

 private:
  int& writes_;
};

// What the gateway sends to a program for one GET, and in how many writes.
Task<> get(World& w, Parts& parts, std::uint16_t port, std::string& text, int& writes) {
  auto [client, server] = net::stream_pair(w.loop.get_executor());
  Inbound in{parts.registry.find("isandbox"), "", authority("api.example:" + std::to_string(port))};
  HttpFlow flow(parts, std::move(in), {});
  async::Scope scope(w.loop.get_executor());
  scope.spawn("serve", serve(flow, std::make_unique<CountedStream>(std::move(server), writes)));
  std::string head = fmt::format("GET / HTTP/1.1\r\nHost: api.example:{}\r\n\r\n", port);
  EXPECT_TRUE((co_await client->write_all(head)).ok());
  char buffer[4096];
  while (!text.ends_with("short")) {
    auto got = co_await client->read_some(buffer);
    if (!got.ok() || *got == 0) break;
    text.append(buffer, *got);
  }
  client->close();
  co_await scope.join();
}

TEST(HttpFlow, AShortAnswerGoesOutInOneWrite) {
  PartsWorld all;
  all.parts.registry.put(sandbox_with(R"([{"id": "all", "action": "allow", "hosts": ["api.example"]}])"));
  http::Handler handler = [](http::Exchange& exchange) -> Task<> {
    http::ResponseHead head;
    (void)co_await exchange.respond(std::move(head), "short");
  };
  TestServer server(all.world.scope, all.world.loop.get_executor(), Kind::kPlain, handler);
  std::string text;
  int writes = 0;
  all.world.run([&](World& w) -> Task<> {
    // Nothing of this machine is dialled for a sandbox, but a connection that is kept is used again.
    auto route = w.route(server.port, upstream_key(*all.parts.registry.find("isandbox")));
    route.tls = false;
    EXPECT_TRUE((co_await ask(w.upstream, route, request())).ok());
    co_await get(w, all.parts, server.port, text, writes);
    server.close();
  });
  EXPECT_TRUE(text.starts_with("HTTP/1.1 200 ")) << text;
  EXPECT_TRUE(text.ends_with("short")) << text;
  EXPECT_EQ(server.connections, 1);
  EXPECT_EQ(writes, 1);
}

TEST(HttpFlow, ADenialOfAnAddressIsForWhatHasGoneThereByName) {
  constexpr char kAll[] = R"({"id":"all","action":"allow","hosts":["*"]})";
  FlowWorld gateway(kAll);
  Inbound in{gateway.parts.registry.find("s"), "", authority("api.example:443")};
  in.note_peer("9.9.9.9:443");
  EXPECT_TRUE(still_allowed(gateway.parts.registry.find("s"), in, policy::Stream::kTls));
  gateway.put(std::string(kAll) + R"(,{"id":"block","action":"deny","hosts":["9.9.9.0/24"]})");
  EXPECT_FALSE(still_allowed(gateway.parts.registry.find("s"), in, policy::Stream::kTls));
  gateway.world.run([](World&) -> Task<> { co_return; });
}

}  // namespace
}  // namespace atl::gateway
