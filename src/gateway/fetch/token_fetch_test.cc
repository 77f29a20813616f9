// SPDX-License-Identifier: Apache-2.0
#include "gateway/fetch/token_fetch.h"

#include "gateway/upstream/world_for_test.h"

namespace atl::gateway {
namespace {

using namespace testing;
using Kind = TestServer::Kind;

struct Seen {
  std::string text;
  int status = 200;
  std::string location;
  std::size_t answer = 2;  // bytes
};

// A token endpoint that writes down what it is told.
http::Handler endpoint(Seen& seen) {
  return [&seen](http::Exchange& exchange) -> Task<> {
    auto body = co_await exchange.read_all(1000);
    const auto& request = exchange.request();
    seen.text = fmt::format("{} {} {} {}", request.method, request.target,
                            request.headers.find("content-type").value_or(""), std::move(body).value_or(""));
    http::ResponseHead head;
    head.status = seen.status;
    if (!seen.location.empty()) head.headers.add("location", seen.location);
    std::string answer(seen.answer, 'x');
    (void)co_await exchange.respond(std::move(head), std::move(answer));
  };
}

vault::TokenRequest asked(const std::string& url) {
  vault::TokenRequest out;
  out.url = url;
  out.headers.emplace_back("content-type", Secret("application/x-www-form-urlencoded"));
  out.body = Secret("grant_type=client_credentials");
  return out;
}

Result<vault::TokenAnswer> send(World& world, std::string url, AddressCheck check) {
  std::optional<Result<vault::TokenAnswer>> answer;
  world.run([&](World& w) -> Task<> {
    auto fetch = make_token_fetch(w.upstream, check);
    auto request = asked(url);
    answer.emplace(co_await fetch(std::move(request)));
  });
  return std::move(*answer);
}

TEST(TokenFetch, PostsToTheEndpointOverVerifiedTls) {
  World world;
  Seen seen;
  TestServer server(world.scope, world.loop.get_executor(), Kind::kTls, endpoint(seen));
  auto answer =
      send(world, fmt::format("https://api.example:{}/oauth/token?x=1", server.port), loopback_only);
  ASSERT_TRUE(answer.ok()) << answer.error().message();
  EXPECT_EQ(answer->body.reveal(), "xx");
  EXPECT_EQ(seen.text,
            "POST /oauth/token?x=1 application/x-www-form-urlencoded grant_type=client_credentials");
}

TEST(TokenFetch, DoesNotFollowARedirectWithASecretInHand) {
  World world;
  Seen seen{.status = 307, .location = "https://evil.example/"};
  TestServer server(world.scope, world.loop.get_executor(), Kind::kTls, endpoint(seen));
  auto answer = send(world, fmt::format("https://api.example:{}", server.port), loopback_only);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, 307);
  EXPECT_EQ(server.connections, 1);
}

TEST(TokenFetch, Report73_ATenantsEndpointIsDialledOnlyAtAllowedAddresses) {
  World world;
  Seen seen;
  TestServer server(world.scope, world.loop.get_executor(), Kind::kTls, endpoint(seen));
  auto nowhere = [](const IpAddress&) -> Result<void> {
    return make_error(Code::kDenied, "not there").with_word("address_denied");
  };
  auto answer = send(world, fmt::format("https://api.example:{}/", server.port), nowhere);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().word(), "address_denied");
  EXPECT_EQ(server.connections, 0);
}

TEST(TokenFetch, RefusesPlainHttpAndMalformedUrls) {
  for (const char* url : {"http://api.example/", "https://user@api.example/", "https:///x",
                          "https://api.example/a#b", "https://api.example/a b", "api.example"}) {
    World world;
    auto answer = send(world, url, loopback_only);
    ASSERT_FALSE(answer.ok()) << url;
    EXPECT_EQ(answer.error().code(), Code::kInvalid) << url;
    EXPECT_EQ(world.resolver->asked, 0) << url;
  }
}

TEST(TokenFetch, AnAnswerIsBounded) {
  World world;
  Seen seen{.answer = 100'000};
  TestServer server(world.scope, world.loop.get_executor(), Kind::kTls, endpoint(seen));
  auto answer = send(world, fmt::format("https://api.example:{}/", server.port), loopback_only);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code(), Code::kTooLarge);
}

}  // namespace
}  // namespace atl::gateway
