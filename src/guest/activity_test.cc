// SPDX-License-Identifier: Apache-2.0
//
// What the guest daemon says about work, before control lets its sandbox sleep.
#include "guest/guest_test_util.h"

namespace atl::guest {
namespace {

using ::testing::StartsWith;

class GuestActivity : public GuestFixture {
 protected:
  void TearDown() override {
    for (const auto& process : server_->guest().processes.alive()) (void)process->send_signal(SIGKILL);
    EXPECT_TRUE(eventually([&] { return server_->guest().requests == 0; }));
  }
  json::object activity() {
    auto answer = call("GET", "/activity", {{"x-atoll-internal", kInternal}});
    EXPECT_EQ(answer.head.status, 200);
    return json::parse(answer.body).as_object();
  }
  std::int64_t number(const json::object& object, const char* key) { return object.at(key).as_int64(); }
};

TEST_F(GuestActivity, DoesNotExistWithoutTheToken) {
  EXPECT_EQ(call("GET", "/activity").head.status, 404);
  EXPECT_EQ(call("GET", "/activity").body, call("GET", "/unknown").body);
}

TEST_F(GuestActivity, NamesTheEldestProcessUntilTheLastHasEnded) {
  EXPECT_EQ(number(activity(), "processes"), 0);
  LiveStream live(client_, "/process.Process/Start",
                  R"({"process":{"cmd":"/bin/sh","args":["-c","read x"]}})");
  auto pid = await(live.next()).at("event").at("start").at("pid").to_number<int>();
  LiveStream other(client_, "/process.Process/Start", R"({"process":{"cmd":"/bin/cat"}})");
  await(other.next());
  auto told = activity();
  EXPECT_EQ(number(told, "processes"), 2);
  EXPECT_EQ(number(told, "pid"), pid);
  EXPECT_EQ(text(told, "command"), "/bin/sh -c read x");
  EXPECT_EQ(number(told, "requests"), 2) << "both streams are open";
  for (const auto& process : server_->guest().processes.alive()) (void)process->send_signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return server_->guest().processes.alive().empty(); }));
  told = activity();
  EXPECT_EQ(number(told, "processes"), 0);
  EXPECT_FALSE(told.contains("pid"));
}

TEST_F(GuestActivity, AServiceIsNoWork) {
  LiveStream field(client_, "/process.Process/Start",
                   R"({"process":{"cmd":"/bin/sleep","args":["1000"]},"service":true})");
  await(field.next());
  // As a client says it that knows no fields of ours.
  LiveStream variable(client_, "/process.Process/Start",
                      R"({"process":{"cmd":"/bin/sleep","args":["1000"],"envs":{"ATOLL_SERVICE":"1"}}})");
  await(variable.next());
  LiveStream other(client_, "/process.Process/Start",
                   R"({"process":{"cmd":"/bin/sleep","args":["1000"],"envs":{"ATOLL_SERVICE":"0"}}})");
  await(other.next());
  auto told = activity();
  EXPECT_EQ(number(told, "services"), 2);
  EXPECT_EQ(number(told, "processes"), 1);
}

TEST_F(GuestActivity, QuietIsCountedFromTheLastRequestAndNotFromControlsOwn) {
  server_->guest().last_request = Steady::now() - std::chrono::hours(2);
  EXPECT_LT(number(activity(), "quietMs"), 3'600'000) << "since the daemon began";
  call("GET", "/health");
  EXPECT_LT(Steady::now() - server_->guest().last_request, std::chrono::hours(1));
  auto before = server_->guest().last_request;
  (void)activity();
  EXPECT_EQ(server_->guest().last_request, before);
}

TEST_F(GuestActivity, ALongCommandIsCutWhereACharacterEnds) {
  std::string words;
  for (int i = 0; i < 150; ++i) words += "\u00fc";
  LiveStream live(client_, "/process.Process/Start",
                  R"({"process":{"cmd":"/bin/sh","args":["-c","read x # )" + words + "\"]}}");
  await(live.next());
  std::string command = text(activity(), "command");
  EXPECT_LE(command.size(), 203u);
  EXPECT_THAT(command, StartsWith("/bin/sh -c read x # \u00fc"));
  EXPECT_TRUE(command.ends_with("\u00fc..."));
}

}  // namespace
}  // namespace atl::guest
