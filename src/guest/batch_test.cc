// SPDX-License-Identifier: Apache-2.0
//
// Batches: order, dependencies, stops, replays, and what each kind of step gives.
#include "guest/batch.h"

#include <gmock/gmock.h>

#include "guest/guest_test_util.h"

namespace atl::guest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BatchTest : public GuestFixture {
 protected:
  struct Ran {
    std::map<std::string, json::object> done;  // by step
    std::map<std::string, std::string> out;    // standard output by step
    std::map<std::string, std::string> skipped;
    std::vector<std::string> order;  // of the ends
    bool ok = false;
    bool ended = false;
  };

  http::Answer post(json::array steps, json::object more = {}) {
    more["steps"] = std::move(steps);
    more["user"] = "root";
    return call("POST", "/batch", {}, json::serialize(more));
  }
  static Ran read(const std::string& body) {
    Ran ran;
    for (std::size_t at = 0, end; (end = body.find('\n', at)) != std::string::npos; at = end + 1) {
      auto line = json::parse(std::string_view(body).substr(at, end - at)).as_object();
      if (line.contains("end")) {
        ran.ended = true;
        ran.ok = line["end"].at("ok").as_bool();
        continue;
      }
      std::string name(line["step"].as_string());
      if (line.contains("done")) {
        ran.done[name] = line["done"].as_object();
        ran.order.push_back(name);
      }
      if (line.contains("skipped")) ran.skipped[name] = std::string(line["skipped"].as_string());
      if (line.contains("event") && line["event"].as_object().contains("stdout"))
        ran.out[name] += base64_decode(std::string(line["event"].at("stdout").as_string())).value_or("?");
    }
    EXPECT_TRUE(ran.ended) << body;
    return ran;
  }
  Ran run(json::array steps, json::object more = {}) {
    auto answer = post(std::move(steps), std::move(more));
    EXPECT_EQ(answer.head.status, 200) << answer.body;
    return read(answer.body);
  }
};

TEST_F(BatchTest, RunsStepsInTheirOrder) {
  std::string file = path("f");
  auto ran = run({{{"write", file}, {"content", "one\n"}},
                  {{"command", "echo two >>" + file}},
                  {{"id", "look"}, {"command", "cat " + file + "; echo \"$A\""}, {"envs", {{"A", "a"}}}},
                  {{"id", "read"}, {"read", file}},
                  {{"id", "list"}, {"list", directory_}},
                  {{"move", file}, {"destination", path("g")}},
                  {{"makeDir", path("d")}},
                  {{"remove", path("g")}}});
  EXPECT_TRUE(ran.ok);
  EXPECT_EQ(ran.out["look"], "one\ntwo\na\n");
  EXPECT_EQ(base64_decode(std::string(ran.done["read"]["result"].at("base64").as_string())), "one\ntwo\n");
  EXPECT_THAT(json::serialize(ran.done["list"]), HasSubstr("\"f\""));
  EXPECT_THAT(ran.order, ElementsAre("1", "2", "look", "read", "list", "6", "7", "8"));
  EXPECT_TRUE(fs::exists(path("d")));
  EXPECT_FALSE(fs::exists(path("g")));
}

TEST_F(BatchTest, StopsAtAFailureUnlessToldOtherwise) {
  auto ran = run({{{"id", "a"}, {"command", "exit 3"}}, {{"id", "b"}, {"command", "true"}}});
  EXPECT_FALSE(ran.ok);
  EXPECT_EQ(ran.done["a"]["ok"], false);
  EXPECT_EQ(ran.done["a"]["result"].at("exitCode"), 3);
  EXPECT_EQ(ran.skipped["b"], "step a failed");

  ran =
      run({{{"id", "a"}, {"command", "exit 3"}, {"ignoreError", true}}, {{"id", "b"}, {"command", "true"}}});
  EXPECT_TRUE(ran.ok);
  EXPECT_EQ(ran.done["b"]["ok"], true);

  auto independent = [](const char* id, const char* command) -> json::object {
    return {{"id", id}, {"command", command}, {"after", json::array()}};
  };
  ran = run({independent("a", "false"), independent("b", "true")}, {{"stopOnError", false}});
  EXPECT_FALSE(ran.ok);
  EXPECT_EQ(ran.done["b"]["ok"], true);
}

TEST_F(BatchTest, IndependentStepsRunTogetherAndDependentOnesAfterThem) {
  // Each of the two waits for the other's file.
  auto meet = [&](const std::string& mine, const std::string& other) {
    return "touch " + path(mine) + "; until [ -e " + path(other) + " ]; do sleep 0.01; done";
  };
  auto ran = run({{{"id", "a"}, {"command", meet("x", "y")}, {"after", json::array()}},
                  {{"id", "b"}, {"command", meet("y", "x")}, {"after", json::array()}},
                  {{"id", "c"}, {"command", "echo both"}, {"after", {"a", "b"}}}});
  EXPECT_TRUE(ran.ok);
  EXPECT_EQ(ran.order.back(), "c");
}

TEST_F(BatchTest, IsNotRunTwiceUnderOneKey) {
  json::array steps{{{"command", "echo run >>" + path("count") + "; echo said"}}};
  auto first = post(steps, {{"key", "k"}});
  auto second = post(steps, {{"key", "k"}});
  EXPECT_EQ(first.body, second.body);
  EXPECT_EQ(GuestFixture::read("count"), "run\n");
  EXPECT_EQ(post({{{"command", "true"}}}, {{"key", "k"}}).head.status, 409);
  post(steps);
  EXPECT_EQ(GuestFixture::read("count"), "run\nrun\n");
}

TEST_F(BatchTest, EndsWhenItsClientLeavesUnlessItHasAKey) {
  for (bool keyed : {false, true}) {
    fs::remove(path("begun"));
    fs::remove(path("ended"));
    json::object request{
        {"user", "root"},
        {"steps",
         {{{"command", "touch " + path("begun") + "; until [ -e " + path("go") + " ]; do sleep 0.01; done"}},
          {{"command", "touch " + path("ended")}}}}};
    if (keyed) request["key"] = "k";
    std::string body = json::serialize(request);
    http::RequestHead head;
    head.method = "POST";
    head.target = "/batch";
    head.authority = "guest";
    head.has_body = true;
    head.content_length = body.size();
    auto exchange = await(client_->start(std::move(head)));
    ASSERT_TRUE(exchange.ok());
    ASSERT_TRUE(await((*exchange)->write_body(body)).ok());
    ASSERT_TRUE(eventually([&] { return fs::exists(path("begun")); }));
    (*exchange)->close();
    if (keyed) write("go", "");
    ASSERT_TRUE(eventually([&] { return server_->guest().processes.alive().empty(); }));
    EXPECT_EQ(eventually([&] { return !keyed || fs::exists(path("ended")); }), true);
    EXPECT_EQ(fs::exists(path("ended")), keyed);
    fs::remove(path("go"));
  }
}

TEST_F(BatchTest, SaysWhatIsWrong) {
  EXPECT_EQ(call("POST", "/batch", {}, "{}").head.status, 400);
  EXPECT_THAT(post({{{"command", "a"}, {"read", "b"}}}).body, HasSubstr("step 1"));
  EXPECT_THAT(post({{{"command", "a"}, {"after", {"later"}}}}).body, HasSubstr("no earlier step"));
  EXPECT_THAT(post({{{"id", "x"}, {"command", "a"}}, {{"id", "x"}, {"command", "a"}}}).body,
              HasSubstr("already"));
  auto ran = run({{{"id", "missing"}, {"read", path("no-such-file")}}});
  EXPECT_EQ(ran.done["missing"]["error"].at("code"), "not_found");
}

TEST_F(BatchTest, LeavesOutWhatIsTooMuchAndSaysSo) {
  auto answer = post(
      {{{"id", "much"}, {"command", "head -c 20000000 /dev/zero"}}, {{"id", "next"}, {"command", "true"}}});
  auto ran = read(answer.body);
  EXPECT_TRUE(ran.ok);
  EXPECT_THAT(answer.body.substr(answer.body.size() - 1000), HasSubstr(R"({"step":"much","cut":true})"));
  EXPECT_LT(answer.body.size(), kMaxBatchOutput + kMiB);
}

}  // namespace
}  // namespace atl::guest
