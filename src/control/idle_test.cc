// SPDX-License-Identifier: Apache-2.0
//
// Sleep for want of work, with a clock that the test moves. What users of other platforms reported is a test
// that carries the report's name (reports on idle detection: "inactivity" that was none).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/server.h"
#include "net/tcp.h"
#include "support/control_world.h"

namespace atl::control {
namespace {

using model::PauseCause;
using model::State;
using testing::HasSubstr;
using wire::Rest;
using namespace std::chrono_literals;

constexpr Millis kIdle = 300s;

class IdleTest : public testing::Test {
 protected:
  explicit IdleTest(ServiceOptions options = {}) : world_(std::move(options)) {
    world_.add_template("base", test::kBuild, 0);
    world_.connect();
  }
  SandboxService& service() { return *world_.service; }
  CreateSpec spec(Millis idle = kIdle) {
    auto spec = world_.spec(10h);
    spec.idle_timeout = idle;
    return spec;
  }
  std::string created(CreateSpec spec) {
    auto made = world_.create(std::move(spec));
    EXPECT_TRUE(made.ok()) << made.error().message();
    return made ? (*made)->id : std::string();
  }
  std::string created() { return created(spec()); }
  State state(const std::string& id) {
    auto row = service().get(world_.tenant, id);
    return row ? (*row)->state : State::kStopped;
  }
  // Lets time pass as the loop does: a look every few seconds. Each look is carried through.
  void pass(Millis time, Millis round = 5s) {
    for (Millis left = time; left > 0ms; left -= round) {
      world_.clock.advance(std::min(left, round));
      look();
    }
  }
  void look() {
    world_.run(service().watch_work());
    world_.run(service().settle());
  }
  std::string why(const std::string& id) { return service().wakefulness(id).because; }
  void runs(const std::string& id, int pid) {
    world_.guests.activity[id] =
        fmt::format(R"({{"processes":1,"services":0,"pid":{},"command":"sleep 9","quietMs":0}})", pid);
  }
  void crash_and_return() {
    world_.crash();
    world_.reopen();
    world_.connect();
    world_.run(service().settle());
  }
  // As ingress counts it.
  std::unique_ptr<Activity::Request> request(const std::string& id) {
    return std::make_unique<Activity::Request>(service().find(id)->activity);
  }

  test::World world_;
};

TEST_F(IdleTest, WithoutWorkItSleepsAndTrafficWakesIt) {
  std::string id = created();
  EXPECT_EQ(why(id), "recent");
  pass(kIdle - 10s);
  EXPECT_EQ(state(id), State::kRunning);
  pass(10s);
  EXPECT_EQ(state(id), State::kPaused);
  EXPECT_EQ(world_.runner.entries.at(id).rest, Rest::kFrozen);
  EXPECT_EQ(why(id), "idle");
  EXPECT_FALSE(service().wakefulness(id).awake);
  auto events = world_.run(service().events({.tenant = world_.tenant, .sandbox = id}));
  ASSERT_TRUE(events.ok());
  EXPECT_EQ(events->back().message, "sandbox paused after 300 s without work");
  EXPECT_THAT(events->back().data, HasSubstr(R"("cause":"idle")"));
  EXPECT_TRUE(world_.run(service().wake(id)).ok()) << "traffic wakes what fell asleep by itself";
  EXPECT_EQ(state(id), State::kRunning);
}

TEST_F(IdleTest, WithoutAnIdleTimeItStaysAwakeAndNobodyLooksAtIt) {
  std::string id = created(spec(0s));
  pass(1h, 60s);
  EXPECT_EQ(state(id), State::kRunning);
  EXPECT_EQ(why(id), "no_idle_timeout");
  EXPECT_EQ(world_.runner.usages, 0u);
  EXPECT_EQ(world_.guests.asked, 0u);
}

// ColeMurray/background-agents#1263: a 10-minute inactivity stop kills a running long command.
TEST_F(IdleTest, BackgroundAgents1263ALongCommandIsNotStopped) {
  std::string id = created();
  runs(id, 312);
  pass(3h, 30s);
  EXPECT_EQ(state(id), State::kRunning);
  EXPECT_EQ(why(id), "process");
  EXPECT_EQ(service().wakefulness(id).detail, "process 312 started through the API: sleep 9");
  world_.guests.activity.erase(id);
  pass(2 * kIdle, 30s);
  EXPECT_EQ(state(id), State::kPaused) << "it ended, and nothing came after it";
}

// kubernetes-sigs/agent-sandbox#849: who renews the lease during a silent tool call?
TEST_F(IdleTest, AgentSandbox849ASilentToolCallNeedsNoRenewal) {
  std::string id = created();
  auto call = request(id);
  pass(2h, 30s);
  EXPECT_EQ(state(id), State::kRunning);
  EXPECT_EQ(why(id), "request");
  EXPECT_EQ(world_.guests.asked, 0u) << "what is seen here is not asked there";
  call.reset();
  EXPECT_EQ(why(id), "recent");
  pass(kIdle - 10s);
  EXPECT_EQ(state(id), State::kRunning) << "the idle time begins when the call has ended";
  pass(15s);
  EXPECT_EQ(state(id), State::kPaused);
}

// opensandbox-group/OpenSandbox#1448, #759: automatic pause with resume on revisit, a time for each sandbox.
TEST_F(IdleTest, OpenSandbox1448EachHasItsOwnTimeAndAVisitWakesIt) {
  std::string quick = created(spec(60s)), slow = created();
  pass(70s);
  EXPECT_EQ(state(quick), State::kPaused);
  EXPECT_EQ(state(slow), State::kRunning);
  EXPECT_TRUE(world_.run(service().wake(quick)).ok());
  EXPECT_EQ(state(quick), State::kRunning);
}

// daytonaio/daytona#2007: "inactivity" is never defined.
TEST_F(IdleTest, Daytona2007EverySignalIsNamed) {
  std::string id = created();
  EXPECT_EQ(why(id), "recent");
  ASSERT_TRUE(service().wakefulness(id).sleeps_at);
  EXPECT_EQ(service().wakefulness(id).sleeps_at->ms, world_.clock.now().ms + kIdle.count());
  pass(10s);
  world_.runner.cpu_us[id] += 4'000'000;
  pass(5s);
  EXPECT_EQ(why(id), "cpu");
  EXPECT_EQ(service().wakefulness(id).detail, "80 % of a core");
  auto call = request(id);
  EXPECT_EQ(why(id), "request");
  call.reset();
  runs(id, 7);
  auto asked = world_.run(service().ask_wakefulness(world_.tenant, id));
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(asked->because, "process");
  ASSERT_TRUE(world_.run(service().pause(world_.tenant, id, SandboxService::Memory::kKeep)).ok());
  EXPECT_EQ(why(id), "asked");
}

// docker/desktop-feedback#232: stopped at a hidden limit of 30 minutes; commands do not reset it.
TEST_F(IdleTest, DesktopFeedback232ACommandResetsTheTime) {
  std::string id = created();
  for (int i = 0; i < 10; ++i) {
    pass(kIdle - 20s, 20s);
    request(id).reset();
  }
  EXPECT_EQ(state(id), State::kRunning);
  // Nor are calls about it lost on it.
  pass(kIdle - 20s, 20s);
  ASSERT_TRUE(
      world_.run(service().set_timeout(world_.tenant, id, 9h, SandboxService::Extend::kReplace)).ok());
  pass(kIdle - 20s, 20s);
  EXPECT_EQ(state(id), State::kRunning);
}

// cloudflare/moltworker#139: sleeps in the middle of a chat.
TEST_F(IdleTest, Moltworker139AnOpenStreamWithoutBytesIsAChat) {
  std::string id = created();
  auto first = request(id), second = request(id);
  pass(1h, 30s);
  first.reset();
  pass(1h, 30s);
  EXPECT_EQ(state(id), State::kRunning) << "one of two is still open";
}

TEST_F(IdleTest, ProcessorTimeIsWorkWithoutAnyRequest) {
  std::string id = created();
  for (int i = 0; i < 200; ++i) {
    world_.runner.cpu_us[id] += 60'000;  // 1.2 % of a core
    pass(5s);
  }
  EXPECT_EQ(state(id), State::kRunning);
  for (int i = 0; i < 61; ++i) {
    world_.runner.cpu_us[id] += 40'000;  // below the floor: timers of a server that waits
    pass(5s);
  }
  EXPECT_EQ(state(id), State::kPaused);
}

// A reading that did not come says nothing, and the one before it is no excuse.
TEST_F(IdleTest, WithoutAReadingNobodyFallsAsleep) {
  std::string id = created();
  pass(10s);
  world_.runner.fail.emplace(wire::Type::kUsage, make_error(Code::kDeadline, "slow"));
  pass(2 * kIdle, 30s);
  EXPECT_EQ(state(id), State::kRunning);
  world_.runner.fail.clear();
  pass(15s);
  EXPECT_EQ(state(id), State::kPaused);
}

// The kernel of such a tier is a program whose own use is in the figure.
TEST_F(IdleTest, WhatAKernelInUserSpaceUsesItselfIsNoWork) {
  world_.runner.tiers |= 1u << static_cast<unsigned>(model::Tier::kGvisor);
  world_.runner.disconnect();
  world_.until([&] { return !service().status().reconciled; });
  world_.connect();
  auto wanted = spec();
  wanted.isolation = model::IsolationWord(model::Tier::kGvisor);
  std::string id = created(wanted);
  auto use = [&](std::uint64_t us, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      world_.runner.cpu_us[id] += us;
      pass(5s);
    }
  };
  use(600'000, 100);  // 12 % of a core
  EXPECT_EQ(state(id), State::kRunning);
  use(250'000, 61);  // 5 %
  EXPECT_EQ(state(id), State::kPaused);
}

TEST_F(IdleTest, WorkInTheLastRoundCounts) {
  std::string id = created();
  pass(kIdle - 5s);
  world_.runner.cpu_us[id] += 500'000;
  pass(5s);
  EXPECT_EQ(state(id), State::kRunning);
}

TEST_F(IdleTest, WhoWasJustWokenIsNotIdle) {
  std::string id = created();
  pass(kIdle + 5s);
  ASSERT_EQ(state(id), State::kPaused);
  world_.clock.advance(5h);
  ASSERT_TRUE(world_.run(service().wake(id)).ok());
  pass(kIdle - 10s);
  EXPECT_EQ(state(id), State::kRunning);
  pass(15s);
  EXPECT_EQ(state(id), State::kPaused);
}

TEST_F(IdleTest, ARequestThatComesWhileTheGuestIsAskedKeepsItAwake) {
  std::string id = created();
  pass(kIdle - 5s);
  world_.guests.hold_activity = true;
  world_.clock.advance(5s);
  world_.run(service().watch_work());
  world_.until([&] { return world_.guests.waiting == 1; });
  request(id).reset();  // a command that starts something and goes
  world_.guests.release();
  world_.until([&] { return world_.guests.waiting == 0; });
  look();
  EXPECT_EQ(state(id), State::kRunning);
}

TEST_F(IdleTest, TheDoorIsClosedBeforeAnythingIsWritten) {
  std::string id = created();
  pass(kIdle - 5s);
  world_.guests.hold_activity = true;
  world_.clock.advance(5s);
  world_.run(service().watch_work());
  world_.until([&] { return world_.guests.waiting == 1; });
  world_.guests.release();
  world_.until([&] { return service().find(id)->state == State::kPausing; });
  // Whoever comes now waits, and wakes it again.
  EXPECT_TRUE(world_.run(service().wake(id)).ok());
  EXPECT_EQ(state(id), State::kRunning);
  EXPECT_EQ(world_.runner.pauses, 1u);
}

TEST_F(IdleTest, AGuestThatDoesNotSayKeepsItAwake) {
  std::string id = created();
  world_.guests.activity_status = 500;
  pass(2 * kIdle, 30s);
  EXPECT_EQ(state(id), State::kRunning);
  EXPECT_EQ(why(id), "unknown");
  world_.guests.activity_status = 200;
  world_.guests.activity[id] = R"([1,2)";
  pass(2 * kIdle, 30s);
  EXPECT_EQ(why(id), "unknown");
  world_.guests.activity[id] = R"({"processes":-1,"quietMs":"x","pid":{}})";
  pass(2 * kIdle, 30s);
  EXPECT_EQ(state(id), State::kRunning) << "what is told of no time ended just now";
  world_.guests.activity.erase(id);
  pass(2 * kIdle, 30s);
  EXPECT_EQ(state(id), State::kPaused);
}

TEST_F(IdleTest, TheTimeIsCountedFromTheEndOfTheLastProcess) {
  std::string id = created();
  pass(kIdle - 5s);
  world_.guests.activity[id] = R"({"processes":0,"quietMs":100000})";  // a process ended 100 s ago
  pass(5s);
  EXPECT_EQ(state(id), State::kRunning);
  world_.guests.activity.erase(id);
  pass(kIdle - 100s - 10s);
  EXPECT_EQ(state(id), State::kRunning);
  pass(15s);
  EXPECT_EQ(state(id), State::kPaused);
}

// A gateway that says what it was told to say of the work of every sandbox.
struct FakeGateway {
  std::string work = R"({"requests":0,"approvals":0,"quietMs":1000000})";
  int status = 200;
  int asked = 0;
  http::ServerLimits limits;

  ServiceOptions options() {
    ServiceOptions out;
    out.connect_gateway = [this] { return dial(); };
    return out;
  }
  Task<Result<net::StreamPtr>> dial() {
    auto executor = co_await async::asio::this_coro::executor;
    auto [ours, theirs] = net::stream_pair(executor);
    async::asio::co_spawn(executor, serve(std::move(theirs)), async::asio::detached);
    co_return std::move(ours);
  }
  Task<> serve(net::StreamPtr stream) {
    http::Handler handler = [this](http::Exchange& exchange) { return take(exchange); };
    co_await http::serve_http1(std::move(stream), "", false, limits, handler);
  }
  Task<> take(http::Exchange& exchange) {
    (void)co_await exchange.read_all(1 << 20);
    bool about_work = exchange.request().target.ends_with("/work");
    if (about_work) ++asked;
    http::ResponseHead head;
    if (about_work) head.status = status;
    std::string text = "{}";
    if (about_work) text = work;
    (void)co_await exchange.respond(head, std::move(text));
  }
};

class IdleInGatewayTest : protected FakeGateway, public IdleTest {
 protected:
  IdleInGatewayTest() : IdleTest(options()) {}
  void under_way(int requests, int approvals, Millis quiet) {
    work =
        fmt::format(R"({{"requests":{},"approvals":{},"quietMs":{}}})", requests, approvals, quiet.count());
  }
};

TEST_F(IdleInGatewayTest, ARequestToTheOutsideIsWork) {
  std::string id = created();
  under_way(2, 0, 0ms);
  pass(kIdle - 10s);
  EXPECT_EQ(asked, 0) << "while something else is known, nobody asks";
  pass(3h, 30s);
  EXPECT_EQ(state(id), State::kRunning);
  EXPECT_EQ(why(id), "egress");
  EXPECT_EQ(service().wakefulness(id).detail, "2 under way");
  under_way(2, 1, 0ms);
  pass(2min, 30s);
  EXPECT_EQ(service().wakefulness(id).detail, "2 under way, 1 waiting for a person");
  under_way(0, 1, 10h);
  pass(2min, 30s);
  EXPECT_EQ(service().wakefulness(id).detail, "1 waiting for a person");
  EXPECT_EQ(state(id), State::kRunning);
  under_way(0, 0, 10h);
  pass(2 * kIdle, 30s);
  EXPECT_EQ(state(id), State::kPaused);
}

TEST_F(IdleInGatewayTest, TheTimeIsCountedFromTheEndOfTheLastRequest) {
  std::string id = created();
  pass(kIdle - 5s);
  under_way(0, 0, 100s);
  pass(5s);
  EXPECT_EQ(state(id), State::kRunning);
  EXPECT_EQ(why(id), "recent");
  under_way(0, 0, 1h);
  pass(kIdle - 100s - 10s);
  EXPECT_EQ(state(id), State::kRunning);
  pass(15s);
  EXPECT_EQ(state(id), State::kPaused);
}

TEST_F(IdleInGatewayTest, AGatewayThatDoesNotSayKeepsItAwake) {
  std::string id = created();
  status = 500;
  pass(2 * kIdle, 30s);
  EXPECT_EQ(state(id), State::kRunning);
  EXPECT_EQ(why(id), "unknown");
  status = 200;
  pass(2 * kIdle, 30s);
  EXPECT_EQ(state(id), State::kPaused);
}

TEST_F(IdleTest, WhoLooksAgainAndAgainDoesNotKeepItBusy) {
  std::string id = created();
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(world_.run(service().ask_wakefulness(world_.tenant, id)).ok());
  EXPECT_EQ(world_.guests.asked, 1u);
  world_.clock.advance(1s);
  EXPECT_TRUE(world_.run(service().ask_wakefulness(world_.tenant, id)).ok());
  EXPECT_EQ(world_.guests.asked, 2u);
}

TEST_F(IdleTest, ASnapshotUnderWayIsWork) {
  std::string id = created();
  world_.runner.hold.insert(wire::Type::kSnapshot);
  SnapshotSpec wanted;
  wanted.tenant = world_.tenant;
  wanted.sandbox = id;
  bool done = false;
  world_.spawn(service().snapshot(wanted), [&](Result<SnapshotView> taken) { done = taken.ok(); });
  world_.until([&] { return world_.runner.waiting == 1; });
  for (int i = 0; i < 12; ++i) {
    world_.clock.advance(30s);
    world_.run(service().watch_work());
  }
  EXPECT_EQ(state(id), State::kRunning);
  world_.runner.release_held();
  world_.until([&] { return done; });
  pass(kIdle - 10s);
  EXPECT_EQ(state(id), State::kRunning);
}

TEST_F(IdleTest, TheTimeIsNotBegunAnewByARestartOfControl) {
  std::string id = created();
  pass(kIdle - 60s);
  for (int i = 0; i < 3; ++i) crash_and_return();
  EXPECT_EQ(why(id), "recent");
  pass(60s + kIdle / 4 + 20s);
  EXPECT_EQ(state(id), State::kPaused) << "at most a quarter later than without restarts";
}

TEST_F(IdleTest, ARestartDoesNotPutABusyOneToSleep) {
  std::string id = created();
  for (int i = 0; i < 30; ++i) {
    request(id).reset();
    pass(20s);
  }
  world_.clock.advance(2s);
  crash_and_return();
  pass(kIdle - 20s);
  EXPECT_EQ(state(id), State::kRunning) << "that it was in use is on record";
  pass(kIdle, 5s);
  EXPECT_EQ(state(id), State::kPaused);
}

TEST_F(IdleTest, WhyItRestsIsKnownAfterARestart) {
  std::string id = created();
  pass(kIdle + 5s);
  ASSERT_EQ(state(id), State::kPaused);
  auto since = service().wakefulness(id).since;
  crash_and_return();
  EXPECT_EQ(why(id), "idle");
  EXPECT_EQ(service().wakefulness(id).since, since);
  EXPECT_TRUE(world_.run(service().wake(id)).ok());
}

TEST_F(IdleTest, APauseThatFailsIsTriedAgainAfterAnotherIdleTime) {
  std::string id = created();
  world_.runner.fail.emplace(wire::Type::kPause, make_error(Code::kInternal, "no").with_word("no"));
  pass(kIdle + 5s);
  EXPECT_EQ(state(id), State::kRunning);
  std::size_t freezes = world_.guests.freezes[id].size();
  EXPECT_EQ(freezes, 1u);
  pass(kIdle - 20s);
  EXPECT_EQ(world_.guests.freezes[id].size(), 1u);
  world_.runner.fail.clear();
  pass(30s);
  EXPECT_EQ(state(id), State::kPaused);
}

TEST_F(IdleTest, OnItsDiskWhereThatWasSaid) {
  auto wanted = spec();
  wanted.lifecycle.keep_memory = false;
  std::string id = created(wanted);
  pass(kIdle + 5s);
  EXPECT_EQ(state(id), State::kPaused);
  EXPECT_EQ(world_.runner.entries.at(id).rest, Rest::kStored);
}

TEST_F(IdleTest, TheTimeCanBeChangedWhileItRuns) {
  std::string id = created(spec(0s));
  EXPECT_FALSE(service().find(id)->auto_resume);
  ASSERT_TRUE(world_.run(service().set_idle_timeout(world_.tenant, id, 60s, std::nullopt)).ok());
  EXPECT_TRUE(service().find(id)->auto_resume);
  pass(40s);
  ASSERT_TRUE(world_.run(service().set_idle_timeout(world_.tenant, id, kIdle, false)).ok());
  EXPECT_FALSE(service().find(id)->auto_resume);
  ASSERT_TRUE(world_.run(service().set_idle_timeout(world_.tenant, id, kIdle, std::nullopt)).ok());
  EXPECT_FALSE(service().find(id)->auto_resume) << "what was said once holds";
  pass(60s);
  EXPECT_EQ(state(id), State::kRunning);
  crash_and_return();
  EXPECT_EQ((*service().get(world_.tenant, id))->lifecycle.idle_timeout, kIdle);
  pass(2 * kIdle);
  EXPECT_EQ(state(id), State::kPaused);
  ASSERT_TRUE(world_.run(service().set_idle_timeout(world_.tenant, id, 0s, true)).ok())
      << "also while it rests";
  EXPECT_TRUE(world_.run(service().wake(id)).ok());
  pass(2 * kIdle, 30s);
  EXPECT_EQ(state(id), State::kRunning);
}

TEST_F(IdleTest, TrafficCannotBeToldToWakeWhatKeepsOnlyItsDisk) {
  auto wanted = spec();
  wanted.lifecycle.keep_memory = false;
  std::string id = created(wanted);
  auto refused = world_.run(service().set_idle_timeout(world_.tenant, id, kIdle, true));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().word(), "invalid_field");
}

TEST_F(IdleTest, TheTemplateNamesATimeForThoseWhoDoNot) {
  Catalog::NewBuild request;
  request.tenant = world_.tenant;
  request.name = *model::parse_template_ref("sleepy");
  request.build.id = test::kBuild2;
  request.build.idle_timeout = 60s;
  ASSERT_TRUE(world_.run(world_.catalog->register_build(std::move(request))).ok());
  auto plain = world_.spec(10h), own = spec(0s);
  plain.template_ref = own.template_ref = "sleepy";
  std::string with = created(plain), without = created(own);
  EXPECT_TRUE(service().find(with)->auto_resume);
  crash_and_return();
  pass(100s);
  EXPECT_EQ(state(with), State::kPaused);
  EXPECT_EQ(state(without), State::kRunning);
}

TEST_F(IdleTest, AThousandIdleOnesCostAFewMessages) {
  std::vector<std::string> ids;
  for (int i = 0; i < 130; ++i) ids.push_back(created());
  std::size_t usages = world_.runner.usages;
  world_.clock.advance(5s);
  world_.run(service().watch_work());
  EXPECT_EQ(world_.runner.usages - usages, 3u) << "64 in a message";
  EXPECT_EQ(world_.guests.asked, 0u);
}

TEST_F(IdleTest, OneGuestThatHangsKeepsNobodyElseAwake) {
  std::string hangs = created(), other = created();
  pass(kIdle - 5s);
  world_.guests.activity[hangs] = "";
  world_.guests.hold_for = hangs;
  world_.guests.hold_activity = true;
  world_.clock.advance(5s);
  world_.run(service().watch_work());
  world_.until([&] { return state(other) == State::kPaused; });
  EXPECT_EQ(state(hangs), State::kRunning);
}

}  // namespace
}  // namespace atl::control
