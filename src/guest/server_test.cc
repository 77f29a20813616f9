// SPDX-License-Identifier: Apache-2.0
#include "guest/guest_test_util.h"

namespace atl::guest {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class GuestServer : public GuestFixture {
 protected:
  // What a process sees, a line for each variable.
  std::string environment() {
    std::string out;
    auto events = stream("/process.Process/Start", R"({"process":{"cmd":"/usr/bin/env"},"stdin":false})");
    for (auto& event : events) {
      if (auto* inner = event.if_contains("event"); inner && inner->as_object().contains("data"))
        out += *base64_decode(text(inner->at("data").as_object(), "stdout"));
    }
    return out;
  }
};

constexpr char kRefused[] =
    R"({"code":401,"message":"unauthorized access, please provide a valid access token or )"
    R"(method signing if supported"})";

TEST_F(GuestServer, HealthNeedsNothing) {
  auto answer = call("GET", "/health");
  EXPECT_EQ(answer.head.status, 204);
  EXPECT_EQ(answer.body, "");
}

TEST_F(GuestServer, InternalPathsDoNotExistWithoutTheToken) {
  EXPECT_EQ(call("POST", "/init", {}, "{}").head.status, 404);
  EXPECT_EQ(call("POST", "/init", {{"x-atoll-internal", "00112234"}}, "{}").head.status, 404);
  EXPECT_EQ(call("POST", "/init", {}, "{}").body, call("POST", "/unknown", {}, "{}").body);
}

TEST_F(GuestServer, InitSetsIdentityAndEnvironment) {
  std::string body = R"({"sandboxId":"iabc","templateId":"base","teamId":"t1","generation":2,"envs":{"A":"1"},
    "timestampMs":1700000000000,"random":")" +
                     base64_encode(std::string(32, 'r')) + "\"}";
  EXPECT_EQ(call("POST", "/init", {{"x-atoll-internal", kInternal}}, body).head.status, 204);
  EXPECT_EQ(call("GET", "/envs").body, R"({"A":"1"})");
  EXPECT_EQ(read("run/.E2B_SANDBOX_ID"), "iabc");
  EXPECT_EQ(read("run/.E2B_SANDBOX"), "true");
  std::string output = environment();
  for (const char* line :
       {"A=1\n", "E2B_SANDBOX=true\n", "E2B_SANDBOX_ID=iabc\n", "E2B_TEMPLATE_ID=base\n", "E2B_TEAM_ID=t1\n"})
    EXPECT_THAT(output, HasSubstr(line));
}

TEST_F(GuestServer, WhatTheGatewayGivesIsInTheEnvironmentBelowTheUsersOwn) {
  http::Headers internal{{"x-atoll-internal", kInternal}};
  auto init = [&](const std::string& more) {
    std::string body = R"({"generation":1,"envs":{"B":"mine"})" + more + "}";
    EXPECT_EQ(call("POST", "/init", internal, body).head.status, 204);
  };
  init(R"(,"gateway":{"token":"atoll_st_1","envs":{"A":"ph1","B":"ph2"}})");
  EXPECT_THAT(environment(), testing::AllOf(HasSubstr("ATOLL_TOKEN=atoll_st_1\n"), HasSubstr("A=ph1\n"),
                                            HasSubstr("B=mine\n")));
  EXPECT_EQ(read("run/.ATOLL_TOKEN"), "atoll_st_1");
  init("");  // it says nothing: it stays
  EXPECT_THAT(environment(), HasSubstr("ATOLL_TOKEN=atoll_st_1\n"));
  init(R"(,"gateway":{"token":"atoll_st_2","envs":{"C":"ph3"}})");
  EXPECT_THAT(environment(), testing::AllOf(HasSubstr("ATOLL_TOKEN=atoll_st_2\n"), HasSubstr("C=ph3\n"),
                                            testing::Not(HasSubstr("A=ph1"))));
  EXPECT_EQ(read("run/.ATOLL_TOKEN"), "atoll_st_2");
  EXPECT_EQ(call("GET", "/envs").body, R"({"B":"mine"})");
}

// It goes on from its parent's memory, where that was of generation 5.
TEST_F(GuestServer, AChildTakesATokenOfItsOwn) {
  http::Headers internal{{"x-atoll-internal", kInternal}};
  EXPECT_EQ(call("POST", "/init", internal, R"({"generation":5,"envs":{"A":"5"}})").head.status, 204);
  std::string own(64, 'c');
  EXPECT_EQ(call("POST", "/init", internal, R"({"internalToken":"short"})").head.status, 400);
  std::string told = fmt::format(R"({{"generation":1,"keepEnvironment":true,"internalToken":"{}"}})", own);
  EXPECT_EQ(call("POST", "/init", internal, told).head.status, 204);
  EXPECT_EQ(call("POST", "/init", internal, told).head.status, 404);
  http::Headers new_one{{"x-atoll-internal", own}};
  EXPECT_EQ(call("POST", "/init", new_one, R"({"generation":1,"keepEnvironment":true})").head.status, 204);
}

TEST_F(GuestServer, AnOlderGenerationIsRefused) {
  http::Headers internal{{"x-atoll-internal", kInternal}};
  EXPECT_EQ(call("POST", "/init", internal, R"({"generation":5,"envs":{"A":"5"}})").head.status, 204);
  EXPECT_EQ(call("POST", "/init", internal, R"({"generation":4,"envs":{"A":"4"}})").head.status, 409);
  EXPECT_EQ(call("POST", "/init", internal, R"({"generation":5,"envs":{"A":"again"}})").head.status, 204);
  EXPECT_EQ(call("GET", "/envs").body, R"({"A":"again"})");
}

TEST_F(GuestServer, BeforeAPauseStreamsEndWithAWordAndCanBeTakenUpAgain) {
  http::Headers internal{{"x-atoll-internal", kInternal}};
  EXPECT_EQ(call("POST", "/init", internal, R"({"generation":1})").head.status, 204);
  EXPECT_EQ(call("POST", "/freeze", {}, "{}").head.status, 404);
  EXPECT_EQ(call("POST", "/freeze", {}, "{}").body, call("POST", "/unknown", {}, "{}").body);
  LiveStream live(
      client_, "/process.Process/Start",
      R"({"process":{"cmd":"/bin/sh","args":["-c","echo one; read x; echo two"]},"offsets":true})");
  auto pid = await(live.next()).at("event").at("start").at("pid").to_number<int>();
  EXPECT_EQ(text(await(live.next()).at("event").at("data").as_object(), "offset"), "0");
  EXPECT_EQ(call("POST", "/freeze", internal, "{}").head.status, 204);
  auto last = await(live.next());
  EXPECT_EQ(text(last.at("error").as_object(), "code"), "unavailable");
  EXPECT_THAT(text(last.at("error").as_object(), "message"), HasSubstr("fromOffset 4"));

  EXPECT_EQ(call("POST", "/init", internal, R"({"generation":2})").head.status, 204);
  LiveStream again(client_, "/process.Process/Connect",
                   fmt::format(R"({{"process":{{"pid":{}}},"fromOffset":"4"}})", pid));
  await(again.next());
  auto input = fmt::format(R"({{"process":{{"pid":{}}},"input":{{"stdin":"Cg=="}}}})", pid);
  EXPECT_EQ(rpc("/process.Process/SendInput", input).head.status, 200);
  EXPECT_EQ(text(await(again.next()).at("event").at("data").as_object(), "offset"), "4");
}

TEST_F(GuestServer, TheEnvironmentIsKeptFromOneRunToTheNext) {
  http::Headers internal{{"x-atoll-internal", kInternal}};
  write("kept", R"({"envs":{"A":"1"}})");
  EXPECT_EQ(call("POST", "/init", internal, R"({"generation":2,"keepEnvironment":true})").head.status, 204);
  EXPECT_EQ(call("GET", "/envs").body, R"({"A":"1"})") << "after a boot";
  EXPECT_EQ(read("kept"), R"({"envs":{"A":"1"}})") << "that boot may be undone, and another one come";
  EXPECT_EQ(call("POST", "/init", internal, R"({"generation":3,"keepEnvironment":true})").head.status, 204);
  EXPECT_EQ(call("GET", "/envs").body, R"({"A":"1"})") << "after a freeze";
}

TEST_F(GuestServer, TheEnvironmentOfACreateIsOnTheDiskAtOnceAndThatOfTheDisksParentGone) {
  http::Headers internal{{"x-atoll-internal", kInternal}};
  write("kept", R"({"envs":{"PARENT":"secret"}})");
  EXPECT_EQ(call("POST", "/init", internal, R"({"generation":1,"envs":{"B":"2"}})").head.status, 204);
  EXPECT_EQ(read("kept"), R"({"envs":{"B":"2"}})");
  EXPECT_EQ(call("POST", "/init", internal, R"({"generation":1})").head.status, 204);
  EXPECT_FALSE(fs::exists(path("kept")));
}

TEST_F(GuestServer, WhatIsWrittenIsWrittenOutUnlessThatIsNotWanted) {
  http::Headers internal{{"x-atoll-internal", kInternal}};
  EXPECT_EQ(call("POST", "/init", internal, R"({"generation":1})").head.status, 204);
  fs::remove_all(path("run"));  // what would be written out
  EXPECT_NE(call("POST", "/freeze", internal, "{}").head.status, 204);
  EXPECT_EQ(call("POST", "/freeze", internal, R"({"sync":false})").head.status, 204);
}

TEST_F(GuestServer, DeadlinesOfProcessesStandStillWhileItRests) {
  http::Headers internal{{"x-atoll-internal", kInternal}};
  EXPECT_EQ(call("POST", "/init", internal, R"({"generation":1})").head.status, 204);
  EXPECT_EQ(call("POST", "/freeze", internal, "{}").head.status, 204);
  LiveStream live(client_, "/process.Process/Start", R"({"process":{"cmd":"/bin/sleep","args":["1000"]}})",
                  {{"connect-timeout-ms", "1"}});
  await(live.next());
  ASSERT_EQ(server_->guest().processes.alive().size(), 1u);
  auto process = server_->guest().processes.alive().front();
  loop_.run_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(process->expired());
  EXPECT_EQ(call("POST", "/init", internal, R"({"generation":2})").head.status, 204);
  EXPECT_TRUE(eventually([&] { return process->expired(); }));
}

TEST_F(GuestServer, BeforeAColdPauseProcessesAreAskedToEnd) {
  http::Headers internal{{"x-atoll-internal", kInternal}};
  EXPECT_EQ(call("POST", "/init", internal, R"({"generation":1})").head.status, 204);
  std::string script =
      fmt::format("trap 'echo bye >{}; exit' TERM; echo up; while :; do sleep 0.01; done", path("said"));
  LiveStream live(client_, "/process.Process/Start",
                  fmt::format(R"({{"process":{{"cmd":"/bin/sh","args":["-c","{}"]}}}})", script));
  await(live.next());
  await(live.next());
  EXPECT_EQ(call("POST", "/freeze", internal, R"({"stop":true})").head.status, 204);
  EXPECT_EQ(read("said"), "bye\n");
  EXPECT_EQ(call("POST", "/freeze", internal, R"({"stop":3})").head.status, 400);
  auto told = call("POST", "/freeze", internal, R"({"sync":false,"outside":true})");
  EXPECT_EQ(told.head.status, 200);
  EXPECT_THAT(told.body, MatchesRegex(R"(\{"outside":[0-9]+\})"));
}

TEST_F(GuestServer, ASecuredSandboxAsksForItsTokenEverywhereButHealth) {
  EXPECT_EQ(call("POST", "/init", {{"x-atoll-internal", kInternal}}, R"({"accessToken":"tok"})").head.status,
            204);
  EXPECT_EQ(call("GET", "/health").head.status, 204);
  for (const char* target : {"/metrics", "/envs", "/unknown"}) {
    auto answer = call("GET", target);
    EXPECT_EQ(answer.head.status, 401) << target;
    EXPECT_EQ(answer.body, kRefused) << target;
  }
  EXPECT_EQ(rpc("/process.Process/List", "{}").body, kRefused);
  EXPECT_EQ(rpc("/process.Process/List", "{}", {{"x-access-token", "tok"}}).head.status, 200);
  EXPECT_EQ(rpc("/process.Process/List", "{}", {{"x-access-token", "tokk"}}).head.status, 401);
  EXPECT_EQ(call("POST", "/files/compose", {}, "{}").body, kRefused);
}

TEST_F(GuestServer, ASignatureOpensOneFile) {
  write("a.txt", "content");
  call("POST", "/init", {{"x-atoll-internal", kInternal}}, R"({"accessToken":"tok"})");
  std::string file = path("a.txt");
  std::string signature = http::percent_encode(file_signature(file, "read", "", Secret("tok"), std::nullopt));
  EXPECT_EQ(call("GET", "/files?path=" + file + "&signature=" + signature).body, "content");
  EXPECT_EQ(call("GET", "/files?path=" + file + "x&signature=" + signature).head.status, 401);
  EXPECT_EQ(call("GET", "/files?path=" + file).body,
            R"({"code":401,"message":"missing signature query parameter"})");
  std::string old = http::percent_encode(file_signature(file, "read", "", Secret("tok"), "5"));
  EXPECT_EQ(call("GET", "/files?path=" + file + "&signature_expiration=5&signature=" + old).body,
            R"({"code":401,"message":"signature is already expired"})");
}

TEST_F(GuestServer, MetricsHaveExactlyTheirFields) {
  auto metrics = json::parse(call("GET", "/metrics").body).as_object();
  std::vector<std::string> names;
  for (auto& [name, value] : metrics) {
    EXPECT_TRUE(value.is_number()) << name;
    names.emplace_back(name);
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("ts", "cpu_count", "cpu_used_pct", "mem_total",
                                                     "mem_used", "mem_cache", "mem_total_mib", "mem_used_mib",
                                                     "disk_used", "disk_total"));
}

TEST_F(GuestServer, RefusesOtherCodecsAndBadJson) {
  EXPECT_EQ(call("POST", "/process.Process/List", {{"content-type", "application/proto"}}, "x").head.status,
            400);
  auto answer = rpc("/filesystem.Filesystem/Stat", R"({"path":7})");
  EXPECT_EQ(answer.head.status, 400);
  EXPECT_EQ(answer.body, R"({"code":"invalid_argument","message":"path: must be a string"})");
  EXPECT_EQ(rpc("/process.Process/Nope", "{}").head.status, 404);
  EXPECT_EQ(rpc("/process.Process/List", "{").head.status, 400);
}

Task<std::string> talk_through_tunnel(std::shared_ptr<http::Client> client, std::string target,
                                      std::string internal) {
  http::RequestHead head;
  head.method = "CONNECT";
  head.target = target;
  head.authority = target;
  if (!internal.empty()) head.headers.add("x-atoll-internal", internal);
  auto exchange = co_await client->start(head);
  if (!exchange.ok()) co_return "no exchange: " + exchange.error().message();
  auto answer = co_await (*exchange)->read_head();
  if (!answer.ok()) co_return "no head: " + answer.error().message();
  if (answer->status != 200) co_return std::to_string(answer->status);
  auto stream = (*exchange)->take_stream();
  auto sent = co_await stream->write_all("ping");
  if (sent.ok()) sent = co_await stream->shutdown_write();
  std::string got(100, '\0');
  std::size_t used = 0;
  while (sent.ok()) {
    auto more = co_await stream->read_some(std::span(got).subspan(used));
    if (!more.ok() || *more == 0) break;
    used += *more;
  }
  co_return got.substr(0, used);
}

Task<> echo_once(net::Listener& listener) {
  auto stream = co_await listener.accept();
  if (!stream.ok()) co_return;
  std::string got(100, '\0');
  auto size = co_await (*stream)->read_some(got);
  std::string answer = "echo " + got.substr(0, *size);
  auto sent = co_await (*stream)->write_all(answer);
  if (sent.ok()) sent = co_await (*stream)->shutdown_write();
}

TEST_F(GuestServer, TunnelReachesALoopbackServerForControlOnly) {
  auto listener = net::listen_tcp(loop_.get_executor(), {"127.0.0.1", 0});
  ASSERT_TRUE(listener.ok());
  std::string target = "127.0.0.1:" + std::to_string((*listener)->port());
  scope_->spawn("echo", echo_once(**listener));
  EXPECT_EQ(await(talk_through_tunnel(client_, target, "")), "404");
  EXPECT_EQ(await(talk_through_tunnel(client_, target, kInternal)), "echo ping");
  (*listener)->close();
  EXPECT_EQ(await(talk_through_tunnel(client_, target, kInternal)), "502");
  EXPECT_EQ(await(talk_through_tunnel(client_, "10.0.0.1:80", kInternal)), "400");
}

}  // namespace
}  // namespace atl::guest
