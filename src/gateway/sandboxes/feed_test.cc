// SPDX-License-Identifier: Apache-2.0
#include "gateway/sandboxes/feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/client.h"
#include "net/tcp.h"

namespace atl::gateway {
namespace {

using async::Task;
using testing::HasSubstr;

constexpr char kId[] = "iaaaaaaaaaaaaaaaaaaaa";
constexpr char kOther[] = "ibbbbbbbbbbbbbbbbbbbb";

class FeedTest : public testing::Test {
 protected:
  FeedTest() : scope(loop.get_executor()) {}
  ~FeedTest() override {
    scope.cancel();
    loop.poll();
  }
  Task<Result<net::StreamPtr>> dial() {
    auto [ours, theirs] = net::stream_pair(loop.get_executor());
    scope.spawn("feed", serve(std::move(theirs)));
    co_return std::move(ours);
  }
  Task<> serve(net::StreamPtr stream) {
    http::Handler handler = [this](http::Exchange& exchange) { return feed.handle(exchange); };
    co_await http::serve_http1(std::move(stream), "", false, limits, handler);
  }
  Task<> say_now(std::string method, std::string target, std::string body) {
    http::RequestHead head;
    head.method = method;
    head.target = target;
    head.authority = "gateway";
    head.has_body = !body.empty();
    if (head.has_body) head.content_length = body.size();
    auto answer = co_await http::fetch(client, head, body, 1 << 16);
    status = answer.ok() ? answer->head.status : 0;
    text = answer.ok() ? answer->body : answer.error().message();
    done = true;
  }
  int say(std::string method, std::string target, std::string body = {}) {
    done = false;
    scope.spawn("client", say_now(std::move(method), std::move(target), std::move(body)));
    while (!done && loop.run_one_for(std::chrono::seconds(10)) > 0) continue;
    return status;
  }
  static Task<boost::json::object> describe(SandboxPtr sandbox, Feed::HandOver hand_over) {
    boost::json::object out{{"told", sandbox->id}};
    if (hand_over == Feed::HandOver::kYes) out["token"] = "t";
    co_return out;
  }
  static std::string facts(const std::string& more = {}) {
    return R"({"tenant":"t","template":"base","generation":2,"slot":5,"state":"running","network":{})" +
           more + "}";
  }

  async::asio::io_context loop;
  async::Scope scope;
  http::ServerLimits limits;
  Registry registry;
  bool compiles = true;
  std::vector<std::string> asked;
  Feed feed{
      registry,
      [this](const Sandbox& sandbox) -> Result<WayOut> {
        asked.push_back(sandbox.id + " " + boost::json::serialize(*sandbox.network));
        if (!compiles) return make_error(Code::kInvalid, "rule r1: no such method");
        return WayOut();
      },
      [](SandboxPtr sandbox, Feed::HandOver hand_over) { return describe(std::move(sandbox), hand_over); },
      [](std::uint64_t have) { return boost::json::object{{"after", have}}; },
      [](const std::string& sandbox) { return boost::json::object{{"workOf", sandbox}}; }};
  std::shared_ptr<http::Client> client = http::make_client([this] { return dial(); });
  bool done = false;
  int status = 0;
  std::string text;
};

TEST_F(FeedTest, KnowsWhatItWasTold) {
  EXPECT_EQ(say("PUT", fmt::format("/v1/sandboxes/{}", kId), facts()), 200);
  EXPECT_EQ(text, fmt::format(R"({{"told":"{}"}})", kId));
  EXPECT_EQ(say("PUT", std::string("/v1/sandboxes/") + kId, facts(R"(,"handOver":true)")), 200);
  EXPECT_EQ(text, fmt::format(R"({{"told":"{}","token":"t"}})", kId));
  ASSERT_NE(registry.by_slot(5), nullptr);
  EXPECT_EQ(registry.by_slot(5)->id, kId);
  EXPECT_EQ(registry.by_slot(5)->generation, 2u);
  EXPECT_EQ(registry.by_slot(5)->tenant, "t");
  EXPECT_TRUE(registry.fresh());
  EXPECT_EQ(say("DELETE", fmt::format("/v1/sandboxes/{}?generation=1", kId)), 204);
  EXPECT_NE(registry.find(kId), nullptr);
  EXPECT_EQ(say("DELETE", fmt::format("/v1/sandboxes/{}?generation=2", kId)), 204);
  EXPECT_EQ(registry.find(kId), nullptr);
}

TEST_F(FeedTest, TellsWhatIsUnderWay) {
  EXPECT_EQ(say("GET", fmt::format("/v1/sandboxes/{}/work", kId)), 200);
  EXPECT_EQ(text, fmt::format(R"({{"workOf":"{}"}})", kId));
  EXPECT_EQ(say("GET", fmt::format("/v1/sandboxes/{}", kId)), 404);
}

TEST_F(FeedTest, LabelsAreKnownByTheirNumber) {
  std::string path = fmt::format("/v1/sandboxes/{}", kId);
  EXPECT_EQ(say("PUT", path, facts(R"(,"labels":["npm","git"])")), 200);
  EXPECT_THAT(registry.find(kId)->labels, testing::ElementsAre("npm", "git"));
  EXPECT_EQ(say("PUT", path, facts(R"(,"labels":"git")")), 400);
  EXPECT_EQ(registry.find(kId)->labels.size(), 2u);
  EXPECT_EQ(say("PUT", path, facts()), 200);
  EXPECT_TRUE(registry.find(kId)->labels.empty());
}

TEST_F(FeedTest, SyncKeepsWhatItCanReadAndNothingElse) {
  say("PUT", fmt::format("/v1/sandboxes/{}", kId), facts());
  std::string good = facts(fmt::format(R"(,"id":"{}")", kOther));
  EXPECT_EQ(say("POST", "/v1/sync", R"({"sandboxes":[)" + good + R"(,{"id":"x"}]})"), 204);
  EXPECT_EQ(registry.find(kId), nullptr);
  EXPECT_NE(registry.find(kOther), nullptr);
  EXPECT_EQ(registry.size(), 1u);
  EXPECT_EQ(say("POST", "/v1/sync", R"({"sandboxes":7})"), 400);
  EXPECT_EQ(registry.size(), 1u);
}

TEST_F(FeedTest, RefusesWhatItCannotReadAndSaysWhat) {
  std::string path = fmt::format("/v1/sandboxes/{}", kId);
  EXPECT_EQ(say("PUT", path, "{"), 400);
  EXPECT_EQ(say("PUT", path, R"({"tenant":"t"})"), 400);
  EXPECT_THAT(text, HasSubstr("generation"));
  EXPECT_EQ(say("PUT", path, R"({"tenant":"t","generation":1,"slot":4096,"state":"running","network":{}})"),
            400);
  EXPECT_THAT(text, HasSubstr("slot"));
  EXPECT_EQ(say("PUT", "/v1/sandboxes/..", facts()), 400);
  EXPECT_EQ(say("GET", path), 404);
  EXPECT_EQ(registry.size(), 0u);
  EXPECT_FALSE(registry.fresh());
}

TEST_F(FeedTest, PolicyThatDoesNotCompileLeavesTheOldOne) {
  std::string path = fmt::format("/v1/sandboxes/{}", kId);
  EXPECT_EQ(say("PUT", path, facts()), 200);
  SandboxPtr before = registry.find(kId);
  compiles = false;
  EXPECT_EQ(say("PUT", path, facts()), 400);
  EXPECT_THAT(text, HasSubstr("no such method"));
  EXPECT_EQ(registry.find(kId), before);
}

TEST_F(FeedTest, ChangedRulesMakePoliciesAnewOfThoseTheyAreAbout) {
  std::string other = facts();
  other.replace(other.find("\"slot\":5"), 8, "\"slot\":6");
  say("PUT", fmt::format("/v1/sandboxes/{}", kId), facts());
  say("PUT", fmt::format("/v1/sandboxes/{}", kOther), other);
  asked.clear();
  std::vector<std::string> told;
  auto handle = registry.on_change([&](const std::string& id) { told.push_back(id); });
  feed.compile_anew([](const Sandbox& sandbox) { return sandbox.slot == 6; });
  EXPECT_EQ(asked, std::vector<std::string>{fmt::format("{} {{}}", kOther)});
  EXPECT_EQ(told, std::vector<std::string>{kOther});
  EXPECT_EQ(registry.find(kOther)->slot, 6u);
}

TEST_F(FeedTest, AliveSaysThatNothingHasChanged) {
  EXPECT_EQ(say("POST", "/v1/alive?have=7"), 200);
  EXPECT_EQ(text, R"({"after":7})");
  EXPECT_EQ(say("POST", "/v1/alive?have=x"), 400);
  EXPECT_TRUE(registry.fresh());
}

}  // namespace
}  // namespace atl::gateway
