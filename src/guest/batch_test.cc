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
  // Posts a batch and leaves when the file `begun` is there.
  void begin(const json::object& request) {
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
    ASSERT_NO_FATAL_FAILURE(begin(request));
    if (keyed) write("go", "");
    ASSERT_TRUE(eventually([&] { return server_->guest().processes.alive().empty(); }));
    EXPECT_EQ(eventually([&] { return !keyed || fs::exists(path("ended")); }), true);
    EXPECT_EQ(fs::exists(path("ended")), keyed);
    fs::remove(path("go"));
  }
}

// --- after the end of the sandbox's processes

class BatchRecordTest : public BatchTest {
 protected:
  // What a kill leaves of a daemon: its records as they are now. The next one finds them.
  void kill_and_boot() {
    std::string left = path(fmt::format("left{}", ++boots_));
    // A record takes another name once its batch has ended, which may be right now.
    std::error_code moved;
    do {
      fs::remove_all(left);
      fs::copy(records_, left, moved);
    } while (moved == std::errc::no_such_file_or_directory);
    end_server();
    records_ = left;
    serve(records_);
  }
  std::string append(const std::string& word) { return "echo " + word + " >>" + path("count"); }
  // A step that has begun and does not end.
  std::string hang(const std::string& word) {
    return append(word) + "; touch " + path("begun") + "; sleep 1000";
  }
  static std::string code_of(Ran& ran, const std::string& step) {
    return std::string(ran.done[step].at("error").at("code").as_string());
  }
  Ran again(const json::object& request) {
    auto answer = call("POST", "/batch", {}, json::serialize(request));
    EXPECT_EQ(answer.head.status, 200) << answer.body;
    return BatchTest::read(answer.body);
  }

  std::string records_ = path("batches");
  int boots_ = 0;
};

TEST_F(BatchRecordTest, AKeyOutlivesTheProcesses) {
  json::array steps{{{"command", append("run") + "; echo said"}}, {{"read", path("count")}}};
  auto first = post(steps, {{"key", "k"}});
  ASSERT_EQ(first.head.status, 200) << first.body;
  kill_and_boot();
  EXPECT_EQ(post(steps, {{"key", "k"}}).body, first.body);
  EXPECT_EQ(GuestFixture::read("count"), "run\n");
  EXPECT_EQ(post({{{"command", "true"}}}, {{"key", "k"}}).head.status, 409);
}

TEST_F(BatchRecordTest, AStepThatHadBegunIsToldAsUnknownAndNotRunAgain) {
  json::object request{{"user", "root"},
                       {"key", "k"},
                       {"steps",
                        {{{"id", "a"}, {"command", append("a")}},
                         {{"id", "b"}, {"command", hang("b")}},
                         {{"id", "c"}, {"command", append("c")}}}}};
  begin(request);
  kill_and_boot();
  auto ran = again(request);
  EXPECT_FALSE(ran.ok);
  EXPECT_EQ(ran.done["a"]["ok"], true);
  EXPECT_EQ(code_of(ran, "b"), "outcome_unknown");
  EXPECT_EQ(ran.skipped["c"], "step b failed");
  EXPECT_EQ(GuestFixture::read("count"), "a\nb\n");
  kill_and_boot();
  EXPECT_EQ(code_of(ran = again(request), "b"), "outcome_unknown");
  EXPECT_EQ(GuestFixture::read("count"), "a\nb\n");
}

TEST_F(BatchRecordTest, WhatHadNotBegunRunsWithTheNextRequest) {
  json::object request{{"user", "root"},
                       {"key", "k"},
                       {"steps",
                        {{{"id", "a"}, {"command", hang("a")}, {"ignoreError", true}},
                         {{"id", "b"}, {"command", append("b")}},
                         {{"id", "read"}, {"read", path("count")}}}}};
  begin(request);
  kill_and_boot();
  auto ran = again(request);
  EXPECT_TRUE(ran.ok);
  EXPECT_EQ(code_of(ran, "a"), "outcome_unknown");
  EXPECT_EQ(GuestFixture::read("count"), "a\nb\n");
}

TEST_F(BatchRecordTest, CodeIsNotRunWithoutTheVariablesOfEarlierCode) {
  // The code itself finds no interpreter here, which is how it ended.
  json::object request{{"user", "root"},
                       {"key", "k"},
                       {"stopOnError", false},
                       {"steps",
                        {{{"id", "a"}, {"code", "x=1"}, {"ignoreError", true}},
                         {{"id", "b"}, {"command", hang("b")}, {"ignoreError", true}},
                         {{"id", "c"}, {"code", "x"}}}}};
  begin(request);
  kill_and_boot();
  auto ran = again(request);
  EXPECT_EQ(code_of(ran, "a"), "unavailable");
  EXPECT_EQ(code_of(ran, "c"), "context_lost");
}

TEST_F(BatchRecordTest, APauseThatEndsProcessesBeginsNoFurtherStep) {
  json::object request{{"user", "root"},
                       {"key", "k"},
                       {"steps",
                        {{{"id", "a"}, {"command", hang("a")}, {"ignoreError", true}},
                         {{"id", "b"}, {"command", append("b")}}}}};
  begin(request);
  http::Headers internal;
  internal.add("x-atoll-internal", kInternal);
  EXPECT_EQ(call("POST", "/freeze", internal, R"({"stop":true,"sync":false})").head.status, 204);
  EXPECT_TRUE(eventually([&] { return server_->guest().processes.alive().empty(); }));
  kill_and_boot();
  EXPECT_EQ(GuestFixture::read("count"), "a\n");
  auto ran = again(request);
  EXPECT_TRUE(ran.ok);
  EXPECT_EQ(GuestFixture::read("count"), "a\nb\n");
}

// Its end was seen: it must not be told as unknown because no other step came after it.
TEST_F(BatchRecordTest, AStepThatEndsWithAPauseIsToldAsItEnded) {
  std::string command = append("a") + "; trap 'echo said; exit 7' TERM; touch " + path("begun") +
                        "; while true; do sleep 0.01; done";
  json::object first{{"id", "a"}, {"command", command}, {"ignoreError", true}};
  for (bool more : {false, true}) {
    fs::remove(path("begun"));
    json::array steps{first};
    if (more) steps.push_back({{"id", "b"}, {"command", append("b")}});
    json::object request{{"user", "root"}, {"key", fmt::format("k{}", more)}, {"steps", steps}};
    begin(request);
    http::Headers internal;
    internal.add("x-atoll-internal", kInternal);
    EXPECT_EQ(call("POST", "/freeze", internal, R"({"stop":true,"sync":false})").head.status, 204);
    kill_and_boot();
    auto ran = again(request);
    EXPECT_TRUE(ran.ok);
    ASSERT_TRUE(ran.done["a"].contains("result")) << json::serialize(ran.done["a"]);
    EXPECT_EQ(ran.done["a"]["result"].at("exitCode"), 7);
    EXPECT_EQ(ran.out["a"], "said\n");
    EXPECT_EQ(ran.done.contains("b"), more);
  }
  EXPECT_EQ(GuestFixture::read("count"), "a\na\nb\n");
}

TEST_F(BatchRecordTest, WithoutRoomForItsKeyNothingIsRun) {
  fs::create_directory(path("batches"));
  // A name that cannot be made: a folder has it.
  fs::create_directory(path("batches") + "/" + hex_encode(sha256("k")).substr(0, 32));
  auto ran = post({{{"command", append("run")}}}, {{"key", "k"}});
  EXPECT_THAT(ran.body, HasSubstr("outcome_unknown"));
  EXPECT_FALSE(fs::exists(path("count")));
}

TEST(BatchRecord, SaysWhatHadBegun) {
  std::string head = R"({"batch":1,"key":"k","digest":"00"})"
                     "\n";
  auto record = parse_record(
      head + begun_line("a") + "{\"step\":\"a\",\"done\":{\"ok\":true}}\n" + begun_line("b"), "k");
  EXPECT_EQ(record.digest, "00");
  EXPECT_FALSE(record.damaged);
  EXPECT_THAT(record.begun, ElementsAre("a", "b"));
  EXPECT_EQ(record.lines.size(), 1u);
  // What was being written does not count.
  record = parse_record(head + begun_line("a") + R"({"step":"a","done":{"ok")", "k");
  EXPECT_FALSE(record.damaged);
  EXPECT_EQ(record.lines.size(), 0u);
  for (std::string wrong : {head + "no line of ours\n" + begun_line("b"), std::string("[]\n"),
                            std::string(R"({"batch":2,"key":"k","digest":"00"})"
                                        "\n"),
                            std::string(R"({"batch":1,"key":"other","digest":"00"})"
                                        "\n")})
    EXPECT_TRUE(parse_record(wrong, "k").damaged) << wrong;
}

TEST(BatchRecord, OfOneThatIsDamagedNothingIsKnown) {
  char name[] = "/tmp/atoll-batch-record-XXXXXX";
  std::string directory = ::mkdtemp(name);
  BatchRecords records(directory);
  ASSERT_TRUE(records.create("k", "00", {}).ok());
  ASSERT_TRUE(records.load("k"));
  EXPECT_FALSE(records.load("k")->damaged);
  EXPECT_FALSE(records.load("other"));
  std::string path = fs::directory_iterator(directory)->path();
  // A crash before the first line was whole: nothing has begun.
  fs::resize_file(path, 3);
  EXPECT_FALSE(records.load("k"));
  fs::create_directory(path);
  EXPECT_TRUE(records.load("k")->damaged);
  fs::remove_all(directory);
}

TEST(BatchRecord, OutputOfOldAnswersMakesRoomAndTheirStepsStayKnown) {
  char name[] = "/tmp/atoll-batch-record-XXXXXX";
  std::string directory = ::mkdtemp(name);
  BatchRecords records(directory);
  std::string event = R"({"step":"a","event":{"stdout":")" + std::string(kMiB, 'x') + "\"}}\n", output;
  for (int n = 0; n < 12; ++n) output += event;
  std::string end = "{\"step\":\"a\",\"done\":{\"ok\":true}}\n";
  for (const char* key : {"old", "later", "last"}) {
    auto fd = records.create(key, "00", {});
    ASSERT_TRUE(fd.ok() && append_record(fd->get(), begun_line("a") + output + end).ok());
    ASSERT_TRUE(records.end(key).ok());
  }
  ASSERT_TRUE(records.create("new", "00", {}).ok());
  auto old = records.load("old"), last = records.load("last");
  ASSERT_TRUE(old && last);
  EXPECT_THAT(old->lines, ElementsAre("{\"step\":\"a\",\"cut\":true}\n", end));
  EXPECT_THAT(old->begun, ElementsAre("a"));
  EXPECT_EQ(old->digest, "00");
  EXPECT_EQ(last->lines.size(), 13u);
  fs::remove_all(directory);
}

TEST(BatchRecord, TheOldestKeysAreForgotten) {
  char name[] = "/tmp/atoll-batch-record-XXXXXX";
  std::string directory = ::mkdtemp(name);
  BatchRecords records(directory);
  ASSERT_TRUE(records.create("old", "00", {}).ok() && records.end("old").ok());
  ASSERT_TRUE(records.create("runs", "00", {}).ok());
  for (std::size_t n = 2; n < kMaxBatchRecords; ++n)
    std::ofstream(fmt::format("{}/{}.short", directory, n)) << "{}\n";
  EXPECT_TRUE(records.load("old"));
  ASSERT_TRUE(records.create("new", "00", {"runs"}).ok());
  EXPECT_FALSE(records.load("old"));
  EXPECT_TRUE(records.load("runs"));
  fs::remove_all(directory);
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
