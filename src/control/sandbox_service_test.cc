// SPDX-License-Identifier: Apache-2.0
//
// The sandbox service over the real wires to a fake runner and fake guests, with a clock that the test moves.
#include "control/sandbox_service.h"

#include <gtest/gtest.h>

#include "support/service_fixture.h"

namespace atl::control {
namespace {

using test::kBuild;
using test::kBuild2;
using test::ServiceTest;
using test::World;
using wire::Type;

TEST_F(ServiceTest, CreateRunKill) {
  auto spec = world().spec();
  spec.envs = {{"A", "1"}};
  auto made = world().create(spec);
  ASSERT_TRUE(made.ok()) << made.error().message();
  std::string id = (*made)->id;
  EXPECT_EQ((*made)->state, model::State::kRunning);
  EXPECT_TRUE(runner().entries.count(id));
  ASSERT_EQ(world().guests.inits[id].size(), 1u);
  EXPECT_NE(world().guests.inits[id][0].find(R"("envs":{"A":"1"})"), std::string::npos);
  EXPECT_TRUE(service().find(id));
  EXPECT_TRUE(world().run(service().kill(world().tenant, id)).ok());
  EXPECT_FALSE(runner().entries.count(id));
  EXPECT_FALSE(service().find(id));
  EXPECT_EQ(world().run(service().kill(world().tenant, id)).error().code(), Code::kNotFound);
  EXPECT_EQ(ended_row(id).state, model::State::kStopped);
  EXPECT_EQ(ended_row(id).outcome, model::kOutcomeKilled);
  EXPECT_EQ(service().quota().held(), 0u);
}

TEST_F(ServiceTest, UnknownTemplateAndUnavailableIsolationAreTold) {
  auto spec = world().spec();
  spec.template_ref = "other";
  EXPECT_EQ(world().create(spec).error().word(), "template_not_found");
  spec = world().spec();
  spec.isolation = model::IsolationWord(model::Tier::kMicrovm);
  auto refused = world().create(spec);
  EXPECT_EQ(refused.error().word(), "isolation_unavailable");
  EXPECT_TRUE(runner().entries.empty()) << "nothing weaker was made instead";
}

TEST_F(ServiceTest, AReadySandboxIsClaimedAndReplaced) {
  start(2);
  ASSERT_EQ(runner().started, 2u);
  EXPECT_EQ(service().status().ready, 2u);
  std::string id = create_one();
  EXPECT_EQ(runner().started, 2u) << "nothing was started for it";
  EXPECT_EQ(world().guests.inits[id].size(), 1u);
  world().fill();
  EXPECT_EQ(runner().started, 3u);
  EXPECT_EQ(service().status().ready, 2u);
}

TEST_F(ServiceTest, AClaimedSandboxGetsItsNetworkRulesBeforeItsIdentity) {
  start(1);
  auto spec = world().spec();
  spec.network.internet = false;
  auto made = world().create(spec);
  ASSERT_TRUE(made.ok());
  EXPECT_FALSE(runner().entries[(*made)->id].rules.internet);
  runner().fail.emplace(Type::kNetwork, make_error(Code::kInternal, "no rules today"));
  world().fill();
  EXPECT_FALSE(world().create(spec).ok()) << "without its rules it must not run";
  settle();
  EXPECT_EQ(runner().entries.size(), 1u);
}

TEST_F(ServiceTest, EndAllEndsTheReadyAndTheRunningAndLetsNothingNewStart) {
  start(2);
  std::string id = create_one();
  auto ended = world().run(service().end_all());
  ASSERT_TRUE(ended.ok()) << ended.error().message();
  EXPECT_TRUE(runner().entries.empty());
  EXPECT_EQ(ended_row(id).outcome, model::kOutcomeShutDown);
  EXPECT_EQ(service().quota().held(), 0u);
  EXPECT_EQ(world().create(world().spec()).error().code(), Code::kUnavailable);
  world().fill();
  EXPECT_TRUE(runner().entries.empty()) << "no pool is filled any more";
}

TEST_F(ServiceTest, ThePoolFollowsItsTemplate) {
  start(2);
  world().add_template("base", kBuild2, 1);
  world().fill();
  ASSERT_EQ(runner().entries.size(), 1u) << "those of the old build are gone";
  EXPECT_EQ(runner().entries.begin()->second.build, kBuild2);
  ASSERT_TRUE(world().run(world().catalog->remove(world().tenant, "base")).ok());
  world().fill();
  EXPECT_TRUE(runner().entries.empty());
  EXPECT_EQ(service().quota().held(), 0u);
}

TEST_F(ServiceTest, OnAFullHostThePoolMakesRoom) {
  ServiceOptions options;
  options.max_sandboxes = 2;
  start(1, options);
  world().add_template("other", kBuild2, 1);
  world().fill();
  EXPECT_EQ(runner().entries.size(), 2u);
  std::string first = create_one();
  std::string second = create_one();
  EXPECT_TRUE(known(first) && known(second));
  auto third = world().create();
  EXPECT_EQ(third.error().word(), "capacity");
  EXPECT_EQ(third.error().code(), Code::kUnavailable);
  EXPECT_LE(runner().most_entries, 2u);
}

// On the loop a launch for which there is no place fails before spawn() returns: that must end the filling.
TEST_F(ServiceTest, OnAFullHostThePoolWaits) {
  ServiceOptions options;
  options.max_sandboxes = 1;
  start(1, options);
  std::string only = create_one();
  auto fill_on_the_loop = [this]() -> Task<> {
    service().fill_pools();
    co_return;
  };
  world().run(fill_on_the_loop());
  EXPECT_EQ(service().status().ready, 0u);
  EXPECT_TRUE(known(only));
}

// bytedance/deer-flow#4339, e2b-dev/E2B#283: the limit holds at every instant, and the counter goes back to
// zero.
TEST_F(ServiceTest, FiveHundredParallelCreatesNeverExceedTheQuota) {
  ServiceOptions options;
  options.max_sandboxes_per_tenant = 40;
  start(8, options);
  std::vector<std::string> made;
  std::size_t refused = 0, finished = 0;
  for (int i = 0; i < 500; ++i) {
    world().spawn(service().create(world().spec()), [&](Result<SandboxView> answer) {
      ++finished;
      if (answer) {
        made.push_back((*answer)->id);
      } else {
        EXPECT_EQ(answer.error().word(), "quota") << answer.error().message();
        EXPECT_EQ(answer.error().code(), Code::kExhausted);
        ++refused;
      }
    });
  }
  world().until([&] { return finished == 500; });
  EXPECT_EQ(made.size(), 40u);
  EXPECT_EQ(refused, 460u);
  EXPECT_EQ(service().quota().highest(world().tenant), 40u);
  for (const auto& id : made) EXPECT_TRUE(world().run(service().kill(world().tenant, id)).ok());
  EXPECT_EQ(service().quota().held_by(world().tenant), 0u);
  EXPECT_TRUE(known(create_one())) << "there is room again";
}

// cloudflare/sandbox-sdk#794: creates that fail, or whose clients are gone, leave no orphans.
TEST_F(ServiceTest, FailedAndAbandonedCreatesLeaveNothing) {
  world().guests.init_status = 500;
  std::size_t finished = 0;
  for (int i = 0; i < 50; ++i) {
    world().spawn(service().create(world().spec()), [&](Result<SandboxView> answer) {
      ++finished;
      EXPECT_EQ(answer.error().word(), "agent_unreachable");
    });
  }
  world().until([&] { return finished == 50; });
  settle();
  EXPECT_TRUE(runner().entries.empty());
  EXPECT_EQ(service().quota().held(), 0u);
  world().guests.init_status = 204;
  service().abandon(create_one());
  settle();
  EXPECT_TRUE(runner().entries.empty());
}

TEST_F(ServiceTest, AClientThatGoesAwayInTheMiddleLeavesNoHalfSandbox) {
  world().guests.hold_init = true;
  async::Scope client(world().io.get_executor());
  client.spawn("client", world().forget(service().create(world().spec())));
  world().until([&] { return world().guests.waiting == 1; });
  client.cancel();
  world().run(client.join());
  world().guests.release();
  settle();
  ListQuery all;
  all.tenant = world().tenant;
  ASSERT_EQ(service().list(all).rows.size(), 1u) << "it was finished, is listed, and ends at its deadline";
  world().clock.advance(std::chrono::seconds(61));
  service().fire_deadlines();
  settle();
  EXPECT_TRUE(runner().entries.empty());
}

TEST_F(ServiceTest, TheRunnersRefusalReachesTheCaller) {
  runner().slots = 0;
  auto refused = world().create();
  EXPECT_EQ(refused.error().word(), "capacity");
  settle();
  EXPECT_EQ(service().quota().held(), 0u);
}

TEST_F(ServiceTest, DeadlinesFollowTheMonotonicClock) {
  std::string id = create_one(std::chrono::seconds(10));
  world().clock.step_wall(std::chrono::hours(-24 * 365));
  world().clock.advance(std::chrono::milliseconds(9'999));
  service().fire_deadlines();
  EXPECT_TRUE(known(id));
  world().clock.step_wall(std::chrono::hours(24 * 365 * 2));
  service().fire_deadlines();
  EXPECT_TRUE(known(id)) << "a jump forward ends nothing early";
  world().clock.advance(std::chrono::milliseconds(1));
  service().fire_deadlines();
  EXPECT_FALSE(known(id));
  settle();
  EXPECT_EQ(ended_row(id).outcome, model::kOutcomeTimedOut);
  EXPECT_TRUE(runner().entries.empty());
}

TEST_F(ServiceTest, ADeadlineThatPassedWhileControlWasDownFiresAtOnce) {
  std::string past = create_one(std::chrono::seconds(10));
  std::string future = create_one(std::chrono::seconds(1000));
  world().crash();
  world().clock.advance(std::chrono::seconds(11));
  world().clock.step_wall(std::chrono::hours(-1));  // the wall clock alone would have extended it
  world().reopen();
  world().connect();
  service().fire_deadlines();
  settle();
  EXPECT_FALSE(known(past));
  EXPECT_TRUE(known(future));
  EXPECT_EQ(ended_row(past).outcome, model::kOutcomeTimedOut);
}

TEST_F(ServiceTest, TimeoutReplacesAndConnectOnlyExtends) {
  std::string id = create_one(std::chrono::seconds(100));
  auto set = [&](int seconds, SandboxService::Extend extend) {
    auto row = world().run(service().set_timeout(world().tenant, id, std::chrono::seconds(seconds), extend));
    EXPECT_TRUE(row.ok());
    return ((*row)->deadline - world().clock.now()).count() / 1000;
  };
  EXPECT_EQ(set(10, SandboxService::Extend::kExtendOnly), 100);
  EXPECT_EQ(set(200, SandboxService::Extend::kExtendOnly), 200);
  EXPECT_EQ(set(5, SandboxService::Extend::kReplace), 5);
  world().clock.advance(std::chrono::seconds(5));
  service().fire_deadlines();
  EXPECT_FALSE(known(id));
  auto gone = world().run(
      service().set_timeout(world().tenant, id, std::chrono::seconds(5), SandboxService::Extend::kReplace));
  EXPECT_EQ(gone.error().code(), Code::kNotFound);
}

TEST_F(ServiceTest, WithoutTheRunnerCreatesAreRefusedAndRunningOnesStay) {
  std::string id = create_one();
  runner().down = true;
  runner().disconnect();
  world().until([&] { return !service().status().runner_connected; });
  auto refused = world().create();
  EXPECT_EQ(refused.error().word(), "runner_unavailable");
  EXPECT_EQ(refused.error().code(), Code::kUnavailable);
  EXPECT_TRUE(known(id));
  EXPECT_TRUE(service().find(id)) << "ingress still reaches it";
  runner().down = false;
  world().connect();
  EXPECT_TRUE(known(id));
  EXPECT_TRUE(known(create_one()));
}

TEST_F(ServiceTest, AKillWithoutTheRunnerIsTakenOnRecordAndCarriedOut) {
  std::string id = create_one();
  runner().down = true;
  runner().disconnect();
  world().until([&] { return !service().status().runner_connected; });
  auto refused = world().run(service().kill(world().tenant, id));
  EXPECT_EQ(refused.error().word(), "runner_unavailable");
  EXPECT_FALSE(known(id));
  EXPECT_FALSE(service().find(id)) << "it cannot be reached any more";
  EXPECT_TRUE(runner().entries.count(id));
  runner().down = false;
  settle();
  EXPECT_FALSE(runner().entries.count(id));
  EXPECT_EQ(ended_row(id).outcome, model::kOutcomeKilled);
}

TEST_F(ServiceTest, TwoKillsAtOnceBothSucceed) {
  std::string id = create_one();
  runner().hold.insert(Type::kStop);
  int succeeded = 0;
  for (int i = 0; i < 2; ++i) {
    world().spawn(service().kill(world().tenant, id), [&](Result<void> answer) { succeeded += answer.ok(); });
  }
  world().until([&] { return runner().waiting == 1; });
  EXPECT_EQ(succeeded, 0) << "nobody is told before the kernel has confirmed it";
  runner().release_held();
  world().until([&] { return succeeded == 2; });
}

TEST_F(ServiceTest, AStopThatTheKernelRefusesIsShownAndRetried) {
  std::string id = create_one();
  runner().fail.emplace(Type::kStop, make_error(Code::kInternal, "umount: device or resource busy"));
  EXPECT_FALSE(world().run(service().kill(world().tenant, id)).ok());
  world().clock.advance(std::chrono::seconds(31));
  world().until([&] { return ended_row(id).state == model::State::kFailed; });
  EXPECT_EQ(ended_row(id).outcome, model::kOutcomeStopStuck);
  EXPECT_EQ(service().quota().held(), 1u) << "its place is not given to another one";
  restart_and_connect();
  runner().fail.clear();
  settle();
  EXPECT_TRUE(runner().entries.empty());
  EXPECT_EQ(service().quota().held(), 0u);
}

TEST_F(ServiceTest, AnExitIsNoticedTypedAndCleanedUp) {
  std::string lost = create_one();
  std::string starved = create_one();
  std::vector<std::string> gone;
  auto subscription = service().on_gone([&](std::string_view id, std::uint64_t) { gone.emplace_back(id); });
  runner().die(lost);
  runner().die(starved, 3);
  world().until([&] { return !known(lost) && !known(starved); });
  settle();
  EXPECT_EQ(ended_row(lost).state, model::State::kFailed);
  EXPECT_EQ(ended_row(lost).outcome, model::kOutcomeAgentLost);
  EXPECT_EQ(ended_row(starved).outcome, model::kOutcomeOutOfMemory);
  EXPECT_EQ(gone.size(), 2u) << "open connections were told";
  EXPECT_TRUE(runner().entries.empty());
  EXPECT_EQ(service().quota().held(), 0u);
}

TEST_F(ServiceTest, AReadySandboxThatDiesIsReplaced) {
  start(1);
  runner().die(runner().entries.begin()->first);
  world().until([&] { return service().status().ready == 0; });
  settle();
  world().fill();
  EXPECT_EQ(service().status().ready, 1u);
  EXPECT_TRUE(known(create_one()));
}

TEST_F(ServiceTest, ASandboxThatDiesDuringItsCreateIsNotHandedOut) {
  world().guests.hold_init = true;
  std::optional<Result<SandboxView>> answer;
  world().spawn(service().create(world().spec()),
                [&](Result<SandboxView> value) { answer.emplace(std::move(value)); });
  world().until([&] { return world().guests.waiting == 1; });
  runner().die(runner().entries.begin()->first);
  world().until([&] { return service().status().ending + runner().entries.size() == 0; });
  world().guests.release();
  world().until([&] { return answer.has_value(); });
  EXPECT_FALSE(answer->ok());
  EXPECT_EQ(service().quota().held(), 0u);
}

TEST_F(ServiceTest, WhatTheRunnerNoLongerKnowsIsLostAndWhatNobodyKnowsIsStopped) {
  std::string id = create_one();
  std::string kept = create_one();
  runner().entries.erase(id);
  runner().entries["iorphan0000000000000x"] = test::FakeRunner::Entry();
  runner().disconnect();
  world().until([&] { return !service().status().runner_connected; });
  world().connect();
  world().until([&] { return !known(id) && runner().entries.size() == 1; });
  settle();
  EXPECT_EQ(ended_row(id).outcome, model::kOutcomeLost);
  EXPECT_EQ(ended_row(id).state, model::State::kFailed);
  EXPECT_TRUE(known(kept));
}

TEST_F(ServiceTest, DeathsWhileTheRunnerWasAwayAreNoticed) {
  std::string id = create_one();
  runner().disconnect();
  runner().die(id);
  world().until([&] { return !known(id); });
  settle();
  EXPECT_EQ(ended_row(id).outcome, model::kOutcomeAgentLost);
  EXPECT_TRUE(runner().entries.empty());
}

TEST_F(ServiceTest, RunningOnesAreKnownAgainAfterACrash) {
  auto spec = world().spec();
  spec.metadata = {{"k", "v"}};
  auto made = world().create(spec);
  ASSERT_TRUE(made.ok());
  model::SandboxRow before = **made;
  std::uint64_t epoch = service().status().owner_epoch;
  restart();
  auto after = service().get(world().tenant, before.id);
  ASSERT_TRUE(after.ok());
  EXPECT_EQ((*after)->metadata, before.metadata);
  EXPECT_EQ((*after)->deadline, before.deadline);
  EXPECT_EQ((*after)->pid, before.pid);
  EXPECT_TRUE((*after)->access_token.matches(before.access_token.reveal()));
  EXPECT_TRUE(service().find(before.id));
  EXPECT_EQ(service().status().owner_epoch, epoch + 1);
  EXPECT_EQ(runner().started, 1u);
  EXPECT_TRUE(world().run(service().kill(world().tenant, before.id)).ok());
}

TEST_F(ServiceTest, ReadyOnesAreUsedAgainAfterACrash) {
  start(2);
  restart();
  EXPECT_EQ(service().status().ready, 2u);
  world().fill();
  EXPECT_EQ(runner().started, 2u);
  EXPECT_TRUE(known(create_one()));
}

TEST_F(ServiceTest, AColdCreateCutShortIsUndone) {
  runner().hold.insert(Type::kStart);
  world().spawn(service().create(world().spec()), [](Result<SandboxView>) {});
  world().until([&] { return runner().waiting == 1; });
  std::string id = runner().entries.begin()->first;
  restart();
  EXPECT_TRUE(runner().entries.empty());
  EXPECT_EQ(ended_row(id).outcome, model::kOutcomeInterrupted);
  EXPECT_EQ(service().quota().held(), 0u);
}

TEST_F(ServiceTest, AClaimCutShortIsUndoneAndNeverGivenToAnother) {
  start(1);
  world().guests.hold_init = true;
  world().spawn(service().create(world().spec()), [](Result<SandboxView>) {});
  world().until([&] { return world().guests.waiting == 1; });
  std::string id = runner().entries.begin()->first;
  restart();
  EXPECT_FALSE(runner().entries.count(id));
  EXPECT_EQ(ended_row(id).outcome, model::kOutcomeInterrupted);
  world().fill();
  EXPECT_NE(create_one(), id);
}

TEST_F(ServiceTest, APoolLaunchCutShortIsUndone) {
  world().add_template("other", kBuild2, 1);
  runner().hold.insert(Type::kStart);
  service().fill_pools();
  world().until([&] { return runner().waiting == 1; });
  restart();
  EXPECT_TRUE(runner().entries.empty());
  EXPECT_EQ(service().quota().held(), 0u);
}

TEST_F(ServiceTest, AKillCutShortIsFinished) {
  std::string id = create_one();
  runner().ignore.insert(Type::kStop);
  world().spawn(service().kill(world().tenant, id), [](Result<void>) {});
  world().until([&] { return !known(id); });
  world().until([&] { return ended_row(id).state == model::State::kStopping; });
  world().flush();
  world().crash();
  runner().ignore.clear();
  world().reopen();
  world().connect();
  settle();
  EXPECT_TRUE(runner().entries.empty());
  EXPECT_EQ(ended_row(id).outcome, model::kOutcomeKilled);
  EXPECT_EQ(ended_row(id).state, model::State::kStopped);
}

TEST_F(ServiceTest, TheReleaseOfAFailedOneIsFinishedAndItsOutcomeKept) {
  std::string id = create_one();
  runner().ignore.insert(Type::kStop);
  runner().die(id, 1);
  world().until([&] { return ended_row(id).state == model::State::kFailed; });
  world().flush();
  world().crash();
  runner().ignore.clear();
  world().reopen();
  world().connect();
  settle();
  EXPECT_TRUE(runner().entries.empty());
  EXPECT_EQ(ended_row(id).outcome, model::kOutcomeOutOfMemory);
}

TEST_F(ServiceTest, AfterARebootNothingRuns) {
  std::string id = create_one();
  world().crash();
  runner().entries.clear();
  world().set_boot_id("boot-2");
  world().reopen();
  world().connect();
  settle();
  EXPECT_FALSE(known(id));
  EXPECT_EQ(ended_row(id).outcome, model::kOutcomeLost);
}

TEST_F(ServiceTest, AFullDiskRefusesCreatesAndStillLetsSandboxesEnd) {
  std::string id = create_one();
  world().fill_disk();
  std::optional<Error> refused;
  for (int i = 0; i < 50 && !refused; ++i) {
    auto spec = world().spec();
    spec.metadata["pad"] = std::string(8000, 'x');
    auto made = world().create(spec);
    if (!made) refused = std::move(made).error();
  }
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), Code::kNoSpace) << refused->message();
  service().abandon(id);
  world().until([&] { return !runner().entries.count(id); });
  world().free_disk();
  settle();
  EXPECT_FALSE(known(id));
}

TEST_F(ServiceTest, AnEndThatCannotBeWrittenIsNotSaidToBeOnRecord) {
  std::string id = create_one();
  auto sql = [&](const char* text) {
    ASSERT_TRUE(world().db->run_blocking([=](store::Connection& c) { return c.exec(text); }).ok());
  };
  sql("CREATE TRIGGER full BEFORE UPDATE ON sandboxes BEGIN SELECT RAISE(ABORT, 'no'); END");
  auto refused = world().run(service().kill(world().tenant, id));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().hint().find("on record"), std::string::npos) << refused.error().hint();
  EXPECT_FALSE(runner().entries.count(id)) << "it ends all the same";
  sql("DROP TRIGGER full");
  settle();
  EXPECT_EQ(ended_row(id).state, model::State::kStopped);
}

TEST_F(ServiceTest, MetricsAreSampledForThoseThatRun) {
  std::string id = create_one();
  for (int i = 0; i < 3; ++i) {
    world().run(service().sample_metrics());
    world().clock.advance(std::chrono::seconds(5));
  }
  auto samples = service().metrics(world().tenant, id);
  ASSERT_TRUE(samples.ok());
  ASSERT_EQ(samples->size(), 3u);
  EXPECT_EQ(samples->at(0).cpu_pct, 0.0);
  EXPECT_NEAR(samples->at(2).cpu_pct, 20.0, 0.01) << "one second of CPU in five";
  // The runner's limit is the cgroup's, with what the tier itself needs.
  std::uint64_t limit = (*service().get(world().tenant, id))->limits.memory_bytes;
  EXPECT_EQ(samples->at(2).memory_total, limit);
  EXPECT_EQ(samples->at(2).memory_used, 10u << 20);
  runner().memory_used = limit + 1;
  world().run(service().sample_metrics());
  EXPECT_EQ(service().metrics(world().tenant, id)->back().memory_used, limit);
  EXPECT_EQ(service().metrics("another", id).error().code(), Code::kNotFound);
}

TEST_F(ServiceTest, EventsTellTheLifeOfASandbox) {
  std::string id = create_one();
  ASSERT_TRUE(world().run(service().kill(world().tenant, id)).ok());
  store::EventQuery query;
  query.tenant = world().tenant;
  query.sandbox = id;
  auto events = world().run(service().events(query));
  ASSERT_TRUE(events.ok());
  ASSERT_EQ(events->size(), 2u);
  EXPECT_EQ(events->at(0).type, "sandbox.created");
  EXPECT_EQ(events->at(1).type, "sandbox.ended");
}

// The test vector of e2b-protocol 7.2.
TEST_F(ServiceTest, ASignedUrlFindsItsSandbox) {
  create_one();
  std::string id = create_one();
  ASSERT_TRUE(world().replace_token(id, "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0"));
  restart();
  const char* signature = "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E";
  auto route = service().find_by_signature("hello.txt", "read", "user", "", signature);
  ASSERT_TRUE(route);
  EXPECT_EQ(route->sandbox, id);
  EXPECT_FALSE(service().find_by_signature("hello.txt", "write", "user", "", signature));
  EXPECT_FALSE(service().find_by_signature("hello.txt", "read", "user", "1", signature));
  signature = "v1_x1gU0mV8Kid6FIK4Jop2wrli3RLOriJgoanr76XYFKM";
  EXPECT_TRUE(service().find_by_signature("hello.txt", "read", "user", "1700000000", signature));
  signature = "v1_VUFZwUI7FIEg6lZPtfRyLnPqQVw2sE5yV6rKhncidk4";  // right, but no time has 21 digits
  EXPECT_FALSE(service().find_by_signature("hello.txt", "read", "user", std::string(21, '0'), signature));
}

TEST_F(ServiceTest, AnotherTenantSeesNothing) {
  std::string id = create_one();
  EXPECT_EQ(service().get("another", id).error().code(), Code::kNotFound);
  EXPECT_EQ(world().run(service().kill("another", id)).error().code(), Code::kNotFound);
  EXPECT_EQ(world().run(service().find_any("another", id)).error().code(), Code::kNotFound);
  EXPECT_EQ(world().run(service().find_any("", id)).error().code(), Code::kNotFound);
  EXPECT_TRUE(known(id));
}

}  // namespace
}  // namespace atl::control
