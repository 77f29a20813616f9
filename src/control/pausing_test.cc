// SPDX-License-Identifier: Apache-2.0
//
// Pause and resume in control: states, generations, deadlines, traffic that wakes, and what a crash leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/control_world.h"

namespace atl::control {
namespace {

using model::Lifecycle;
using model::State;
using testing::HasSubstr;
using wire::Rest;
using Memory = SandboxService::Memory;

class PausingTest : public testing::Test {
 protected:
  PausingTest() {
    world_.add_template("base", test::kBuild, 0);
    world_.connect();
  }
  SandboxService& service() { return *world_.service; }
  std::string created(Lifecycle lifecycle = {}) {
    auto spec = world_.spec();
    spec.envs["COLOUR"] = "blue";
    spec.lifecycle = lifecycle;
    auto made = world_.create(std::move(spec));
    EXPECT_TRUE(made.ok()) << made.error().message();
    return made ? (*made)->id : std::string();
  }
  Result<void> pause(const std::string& id, Memory memory = Memory::kKeep) {
    return world_.run(service().pause(world_.tenant, id, memory));
  }
  Result<SandboxService::Connected> connect(const std::string& id, Memory memory = Memory::kKeep) {
    return world_.run(service().connect(world_.tenant, id, std::chrono::seconds(60), memory));
  }
  State state(const std::string& id) {
    auto row = service().get(world_.tenant, id);
    return row ? (*row)->state : State::kStopped;
  }
  Rest rest(const std::string& id) { return world_.runner.entries.at(id).rest; }
  std::uint64_t generation(const std::string& id) { return (*service().get(world_.tenant, id))->generation; }
  void settle() { world_.run(service().settle()); }
  // What was written down without anybody waiting is on the disk: the store works in the order of the calls.
  void flush() { ASSERT_TRUE(world_.run(service().events({.all_tenants = true})).ok()); }
  void crash_and_return() {
    world_.crash();
    world_.reopen();
    world_.connect();
    settle();
  }

  test::World world_;
};

TEST_F(PausingTest, PausesAndResumesUnderANewGeneration) {
  std::string id = created();
  std::string token = (*service().get(world_.tenant, id))->access_token.reveal();
  std::vector<std::pair<std::string, std::uint64_t>> gone;
  auto subscription = service().on_gone(
      [&](std::string_view sandbox, std::uint64_t number) { gone.emplace_back(sandbox, number); });
  ASSERT_TRUE(pause(id).ok());
  EXPECT_EQ(state(id), State::kPaused);
  EXPECT_EQ(rest(id), Rest::kFrozen);
  EXPECT_EQ(world_.guests.freezes[id], std::vector<std::string>{R"({"stop":false,"sync":false})"});
  EXPECT_EQ(gone, (std::vector<std::pair<std::string, std::uint64_t>>{{id, 1}}));
  EXPECT_EQ(service().find(id)->state, State::kPaused);
  EXPECT_EQ(pause(id).error().code(), Code::kConflict);
  EXPECT_EQ(service().list({.tenant = world_.tenant}).rows.size(), 1u);
  EXPECT_EQ(service().list({.tenant = world_.tenant, .running = false}).rows.size(), 1u);
  EXPECT_EQ(service().list({.tenant = world_.tenant, .paused = false}).rows.size(), 0u);
  EXPECT_EQ(service().list({.tenant = world_.tenant}).total_running, 0u);
  EXPECT_EQ(world_
                .run(service().set_timeout(world_.tenant, id, std::chrono::seconds(5),
                                           SandboxService::Extend::kReplace))
                .error()
                .code(),
            Code::kConflict);

  auto connected = connect(id);
  ASSERT_TRUE(connected.ok()) << connected.error().message();
  EXPECT_TRUE(connected->resumed);
  EXPECT_EQ(state(id), State::kRunning);
  EXPECT_EQ(rest(id), Rest::kRuns);
  EXPECT_EQ(generation(id), 2u);
  EXPECT_EQ((*service().get(world_.tenant, id))->access_token.reveal(), token);
  EXPECT_EQ(service().find(id)->generation, 2u);
  ASSERT_EQ(world_.guests.inits[id].size(), 2u);
  EXPECT_THAT(world_.guests.inits[id][1], HasSubstr("\"generation\":2"));
  EXPECT_THAT(world_.guests.inits[id][0], HasSubstr("\"COLOUR\":\"blue\""));
  EXPECT_THAT(world_.guests.inits[id][1], HasSubstr("\"keepEnvironment\":true"));
  EXPECT_FALSE(connect(id)->resumed);
}

TEST_F(PausingTest, WhoConnectsToOneThatIsGoneIsToldACommandThatThereIs) {
  std::string id = created();
  ASSERT_TRUE(world_.run(service().kill(world_.tenant, id)).ok());
  EXPECT_THAT(connect(id).error().hint(), HasSubstr("'atoll get " + id + "'"));
}

TEST_F(PausingTest, OnItsDiskItHoldsNoPlace) {
  std::string id = created();
  std::uint32_t held = service().quota().held();
  ASSERT_TRUE(pause(id, Memory::kLose).ok());
  EXPECT_EQ(rest(id), Rest::kStored);
  EXPECT_EQ(world_.guests.freezes[id], std::vector<std::string>{R"({"stop":true,"sync":true})"});
  EXPECT_EQ(service().quota().held(), held - 1);
  ASSERT_TRUE(connect(id).ok());
  EXPECT_EQ(service().quota().held(), held);
  EXPECT_THAT(world_.guests.inits[id].back(), HasSubstr("\"keepEnvironment\":true"));
}

// Of a tier that puts memory into files.
TEST_F(PausingTest, WithItsMemoryInFilesItHoldsNoPlaceAndOutlivesTheMachine) {
  world_.runner.memory_tiers = world_.runner.tiers;
  std::string id = created();
  std::uint32_t held = service().quota().held();
  ASSERT_TRUE(pause(id).ok());
  EXPECT_EQ(rest(id), Rest::kSaved);
  EXPECT_EQ(world_.guests.freezes[id], std::vector<std::string>{R"({"stop":false,"sync":false})"});
  EXPECT_EQ(service().quota().held(), held - 1);
  settle();
  world_.set_boot_id("another boot");
  crash_and_return();
  ASSERT_EQ(state(id), State::kPaused);
  EXPECT_EQ(service().quota().held(), held - 1);
  ASSERT_TRUE(connect(id).ok());
  EXPECT_EQ(rest(id), Rest::kRuns);
  EXPECT_EQ(service().quota().held(), held);
  EXPECT_EQ(generation(id), 2u);
}

// Of a tier that can do so only while nobody is connected.
// The runner had to give it up. Nobody is told that it goes on where it stood.
TEST_F(PausingTest, WithoutItsMemoryItIsBootedOnlyWhenThatIsAsked) {
  world_.runner.memory_tiers = world_.runner.tiers;
  std::string id = created();
  ASSERT_TRUE(pause(id).ok());
  world_.runner.entries.at(id).rest = Rest::kStored;
  auto refused = connect(id);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().word(), "memory_gone");
  EXPECT_EQ(rest(id), Rest::kStored);
  EXPECT_TRUE(connect(id, Memory::kLose).ok());
}

TEST_F(PausingTest, BeforeItsMemoryGoesToFilesNobodyIsConnected) {
  world_.runner.memory_tiers = world_.runner.quiet_tiers = world_.runner.tiers;
  crash_and_return();  // it is told in the hello
  std::string id = created();
  std::size_t told_before = 0;
  auto subscription = service().on_gone([&](std::string_view, std::uint64_t) {
    if (rest(id) == Rest::kRuns) ++told_before;
  });
  ASSERT_TRUE(pause(id).ok());
  EXPECT_EQ(rest(id), Rest::kSaved);
  EXPECT_EQ(told_before, 1u);
  EXPECT_EQ(world_.guests.freezes[id],
            std::vector<std::string>{R"({"stop":false,"sync":false,"outside":true})"});
  EXPECT_EQ(service().wakefulness(id).detail, "");
  ASSERT_TRUE(connect(id).ok());
  EXPECT_EQ(rest(id), Rest::kRuns);
}

TEST_F(PausingTest, WhereItsOwnConnectionsLeadOutItsMemoryStaysAndItSaysWhy) {
  world_.runner.memory_tiers = world_.runner.quiet_tiers = world_.runner.tiers;
  crash_and_return();
  std::string id = created();
  world_.guests.outside = R"({"outside":3})";
  std::uint32_t held = service().quota().held();
  ASSERT_TRUE(pause(id).ok());
  EXPECT_EQ(rest(id), Rest::kFrozen);
  EXPECT_EQ(service().quota().held(), held);
  EXPECT_THAT(service().wakefulness(id).detail, HasSubstr("3 of its connections"));
  settle();
  flush();
  crash_and_return();
  EXPECT_THAT(service().wakefulness(id).detail, HasSubstr("3 of its connections"));
  ASSERT_TRUE(connect(id).ok());
  world_.guests.outside = "hostile";
  ASSERT_TRUE(pause(id).ok());
  EXPECT_EQ(rest(id), Rest::kSaved) << "the runner sees for itself";
  EXPECT_EQ(service().wakefulness(id).detail, "");
}

TEST_F(PausingTest, WhatTheRunnerCannotStoreStaysAndItSaysWhy) {
  world_.runner.memory_tiers = world_.runner.tiers;
  world_.runner.not_saved = "a process uses a file that was removed";
  crash_and_return();
  std::string id = created();
  ASSERT_TRUE(pause(id).ok());
  EXPECT_EQ(rest(id), Rest::kFrozen);
  EXPECT_EQ(service().wakefulness(id).detail, "a process uses a file that was removed");
  world_.runner.not_saved.clear();
  ASSERT_TRUE(connect(id).ok());
  ASSERT_TRUE(pause(id).ok());
  EXPECT_EQ(service().wakefulness(id).detail, "");
}

TEST_F(PausingTest, MemoryInFilesCanBeThrownAway) {
  world_.runner.memory_tiers = world_.runner.tiers;
  std::string id = created();
  ASSERT_TRUE(pause(id).ok());
  std::size_t pauses = world_.runner.pauses;
  ASSERT_TRUE(connect(id, Memory::kLose).ok());
  EXPECT_EQ(world_.runner.pauses, pauses + 1);
  EXPECT_EQ(rest(id), Rest::kRuns);
}

TEST_F(PausingTest, AConnectMayAskForAReboot) {
  std::string id = created();
  ASSERT_TRUE(pause(id).ok());
  auto slot = world_.runner.entries.at(id).slot;
  ASSERT_TRUE(connect(id, Memory::kLose).ok());
  EXPECT_NE(world_.runner.entries.at(id).slot, slot);
  EXPECT_EQ(state(id), State::kRunning);
}

TEST_F(PausingTest, ItsDeadlinePausesItAndDoesNotFireWhileItRests) {
  std::string id = created({.on_timeout = Lifecycle::OnTimeout::kPause});
  std::string disk = created({.on_timeout = Lifecycle::OnTimeout::kPause, .keep_memory = false});
  world_.clock.advance(std::chrono::seconds(61));
  service().fire_deadlines();
  world_.until([&] { return state(id) == State::kPaused && state(disk) == State::kPaused; });
  EXPECT_EQ(rest(id), Rest::kFrozen);
  EXPECT_EQ(rest(disk), Rest::kStored);
  world_.clock.advance(std::chrono::hours(10));
  service().fire_deadlines();
  EXPECT_EQ(state(id), State::kPaused);
  ASSERT_TRUE(connect(id).ok());
  world_.clock.advance(std::chrono::seconds(61));
  service().fire_deadlines();
  world_.until([&] { return state(id) == State::kPaused; });
}

TEST_F(PausingTest, ManyCallersWakeItOnce) {
  std::string id = created({.auto_resume = true});
  ASSERT_TRUE(pause(id).ok());
  EXPECT_TRUE(service().find(id)->auto_resume);
  int awake = 0;
  for (int i = 0; i < 20; ++i) {
    world_.spawn(service().wake(id), [&](Result<RoutePtr> route) {
      awake += route.ok() && (*route)->state == State::kRunning ? 1 : 0;
    });
  }
  world_.until([&] { return awake == 20; });
  EXPECT_EQ(world_.runner.resumes, 1u);
  EXPECT_EQ(generation(id), 2u);
  auto left = (*service().get(world_.tenant, id))->deadline.ms - world_.clock.now().ms;
  EXPECT_EQ(left, 300'000);
}

// A caller at every step of the resume, also while that it runs is being written: each gets it running.
TEST_F(PausingTest, WhoComesInTheMiddleOfAWakingIsServed) {
  std::string id = created({.auto_resume = true});
  ASSERT_TRUE(pause(id).ok());
  int asked = 0, answered = 0, awake = 0;
  world_.until([&] {
    if (service().find(id)->state != State::kRunning || asked == 0) {
      ++asked;
      world_.spawn(service().wake(id), [&](Result<RoutePtr> route) {
        ++answered;
        awake += route.ok() && (*route)->state == State::kRunning ? 1 : 0;
      });
    }
    return answered == asked;
  });
  EXPECT_GT(asked, 5);
  EXPECT_EQ(awake, asked);
  EXPECT_EQ(world_.runner.resumes, 1u);
}

// A pause by somebody else while that it runs again is still being written: no deadline is left that would
// end it.
TEST_F(PausingTest, OnePausedWhileItWakesHasNoDeadline) {
  std::string id = created();
  ASSERT_TRUE(pause(id).ok());
  bool connected = false, paused = false;
  world_.spawn(service().connect(world_.tenant, id, std::chrono::seconds(60), Memory::kKeep),
               [&](auto) { connected = true; });
  world_.until([&] { return state(id) == State::kRunning; });
  world_.spawn(service().pause(world_.tenant, id, Memory::kKeep), [&](auto) { paused = true; });
  world_.until([&] { return connected && paused; });
  world_.clock.advance(std::chrono::seconds(61));
  service().fire_deadlines();
  EXPECT_EQ(state(id), State::kPaused);
  ASSERT_TRUE(connect(id).ok());
}

TEST_F(PausingTest, TrafficDoesNotWakeWhatWasNotToldSo) {
  std::string plain = created();
  std::string disk = created({.auto_resume = true});
  ASSERT_TRUE(pause(plain).ok());
  ASSERT_TRUE(pause(disk, Memory::kLose).ok());
  for (const std::string& id : {plain, disk}) EXPECT_FALSE(world_.run(service().wake(id)).ok());
  EXPECT_EQ(world_.runner.resumes, 0u);
}

TEST_F(PausingTest, WhatTheRunnerRefusesIsUndone) {
  std::string id = created();
  world_.runner.fail.emplace(
      wire::Type::kPause, make_error(Code::kDeadline, "it does not stand still").with_word("pause_timeout"));
  auto refused = pause(id);
  EXPECT_EQ(refused.error().word(), "pause_timeout");
  EXPECT_EQ(state(id), State::kRunning);
  EXPECT_EQ(service().find(id)->state, State::kRunning);
  world_.runner.fail.clear();
  ASSERT_TRUE(pause(id).ok());
  world_.runner.fail.emplace(wire::Type::kResume, make_error(Code::kInternal, "no").with_word("no"));
  EXPECT_FALSE(connect(id).ok());
  EXPECT_EQ(state(id), State::kPaused);
  world_.runner.fail.clear();
  ASSERT_TRUE(connect(id).ok());
  EXPECT_EQ(generation(id), 3u);
}

TEST_F(PausingTest, OfTwoPausesThatWaitForACopyOneIsToldThatItIsPaused) {
  std::string id = created();
  world_.runner.hold.insert(wire::Type::kSnapshot);
  world_.spawn(service().snapshot({world_.tenant, id, "mine", false}), [](Result<SnapshotView>) {});
  world_.until([&] { return world_.runner.waiting == 1; });
  std::vector<Result<void>> answers;
  for (int i = 0; i < 2; ++i) {
    world_.spawn(service().pause(world_.tenant, id, Memory::kKeep),
                 [&](Result<void> answer) { answers.push_back(std::move(answer)); });
  }
  world_.runner.release_held();
  world_.until([&] { return answers.size() == 2; });
  const Result<void>& refused = answers[0].ok() ? answers[1] : answers[0];
  EXPECT_TRUE(answers[0].ok() || answers[1].ok());
  EXPECT_EQ(refused.error().code(), Code::kConflict);
  EXPECT_EQ(refused.error().word(), "sandbox_not_running");
}

// As while the runner still copies the disk for a control that is gone.
TEST_F(PausingTest, WhatTheRunnerIsTooBusyForIsAskedAgain) {
  std::string id = created();
  auto busy_at_first = [&](wire::Type type, const char* word, auto task) {
    world_.runner.fail.emplace(type, make_error(Code::kConflict, "busy").with_word(word));
    world_.runner.hold.insert(type);
    std::optional<bool> done;
    world_.spawn(std::move(task), [&](const auto& answer) { done = answer.ok(); });
    world_.until([&] { return world_.runner.waiting == 1; });
    world_.runner.fail.clear();
    world_.runner.release_held();
    world_.until([&] { return done.has_value(); });
    EXPECT_TRUE(done.value_or(false)) << word;
  };
  busy_at_first(wire::Type::kPause, "sandbox_busy", service().pause(world_.tenant, id, Memory::kLose));
  EXPECT_EQ(rest(id), Rest::kStored);
  EXPECT_EQ(state(id), State::kPaused);
  auto connect = [&] {
    return service().connect(world_.tenant, id, std::chrono::seconds(60), Memory::kKeep);
  };
  busy_at_first(wire::Type::kResume, "sandbox_busy", connect());
  EXPECT_EQ(state(id), State::kRunning);
  busy_at_first(wire::Type::kPause, "runner_busy", service().pause(world_.tenant, id, Memory::kKeep));
  busy_at_first(wire::Type::kResume, "runner_busy", connect());
  EXPECT_EQ(state(id), State::kRunning);
}

TEST_F(PausingTest, AGuestThatDoesNotAnswerIsStillPausedButNotResumed) {
  std::string id = created();
  world_.guests.freeze_status = 500;
  ASSERT_TRUE(pause(id).ok());
  world_.guests.init_status = 500;
  EXPECT_EQ(connect(id).error().word(), "agent_unreachable");
  EXPECT_EQ(state(id), State::kPaused);
  EXPECT_EQ(rest(id), Rest::kFrozen);
  world_.guests.init_status = 204;
  EXPECT_TRUE(connect(id).ok());
}

TEST_F(PausingTest, APausedOneCanBeKilledAndItsEndIsNoticed) {
  std::string killed = created(), dead = created();
  ASSERT_TRUE(pause(killed).ok());
  ASSERT_TRUE(pause(dead).ok());
  EXPECT_TRUE(world_.run(service().kill(world_.tenant, killed)).ok());
  world_.runner.die(dead);
  world_.until([&] { return state(dead) == State::kStopped; });
  settle();
  EXPECT_TRUE(world_.runner.entries.empty());
  EXPECT_EQ(service().quota().held(), 0u);
}

TEST_F(PausingTest, AKillWinsOverAPauseUnderWay) {
  std::string id = created();
  world_.runner.hold.insert(wire::Type::kPause);
  bool paused = false;
  world_.spawn(service().pause(world_.tenant, id, Memory::kKeep), [&](Result<void> done) {
    paused = true;
    EXPECT_EQ(done.error().code(), Code::kNotFound);
  });
  world_.until([&] { return world_.runner.waiting == 1; });
  EXPECT_TRUE(world_.run(service().kill(world_.tenant, id)).ok());
  world_.runner.release_held();
  world_.until([&] { return paused; });
  EXPECT_TRUE(world_.runner.entries.empty());
}

TEST_F(PausingTest, PausedOnesAreKnownAgainAfterACrash) {
  std::string memory = created({.auto_resume = true}), disk = created();
  ASSERT_TRUE(pause(memory).ok());
  ASSERT_TRUE(pause(disk, Memory::kLose).ok());
  crash_and_return();
  EXPECT_EQ(state(memory), State::kPaused);
  EXPECT_EQ(state(disk), State::kPaused);
  EXPECT_EQ(service().quota().held(), 1u);
  EXPECT_TRUE(service().find(memory)->auto_resume);
  EXPECT_TRUE(connect(memory).ok());
  EXPECT_TRUE(connect(disk).ok());
}

TEST_F(PausingTest, APauseCutShortIsFinished) {
  std::string id = created();
  world_.runner.ignore.insert(wire::Type::kPause);
  world_.spawn(service().pause(world_.tenant, id, Memory::kKeep), [](Result<void>) {});
  world_.until([&] { return state(id) == State::kPausing && !world_.guests.freezes[id].empty(); });
  world_.flush();
  world_.runner.ignore.clear();
  crash_and_return();
  EXPECT_EQ(state(id), State::kPaused);
  EXPECT_EQ(rest(id), Rest::kFrozen);
}

TEST_F(PausingTest, AResumeCutShortIsFinished) {
  std::string id = created();
  ASSERT_TRUE(pause(id).ok());
  world_.runner.ignore.insert(wire::Type::kResume);
  world_.spawn(service().connect(world_.tenant, id, std::chrono::seconds(60), Memory::kKeep),
               [](Result<SandboxService::Connected>) {});
  world_.until([&] { return state(id) == State::kResuming; });
  world_.flush();
  world_.runner.ignore.clear();
  crash_and_return();
  EXPECT_EQ(state(id), State::kRunning);
  EXPECT_EQ(rest(id), Rest::kRuns);
  EXPECT_EQ(generation(id), 2u);
}

TEST_F(PausingTest, TheRunnerIsBroughtInLine) {
  std::string paused = created(), running = created();
  ASSERT_TRUE(pause(paused).ok());
  world_.runner.disconnect();
  world_.until([&] { return !service().status().reconciled; });
  world_.runner.entries.at(paused).rest = Rest::kRuns;
  world_.runner.entries.at(running).rest = Rest::kFrozen;
  world_.connect();
  world_.until([&] { return rest(paused) == Rest::kFrozen && state(running) == State::kPaused; });
  EXPECT_TRUE(connect(running).ok());
}

// Field: a renewal races the timer and leaves an orphan (opensandbox-group/OpenSandbox#1200). Whoever is
// first wins, wholly.
TEST_F(PausingTest, ARenewalAtTheLastMomentWinsOrFails) {
  using Extend = SandboxService::Extend;
  std::string early = created({.on_timeout = Lifecycle::OnTimeout::kPause}), late = created();
  world_.clock.advance(std::chrono::seconds(61));
  auto renew = [&](const std::string& id) {
    return world_.run(service().set_timeout(world_.tenant, id, std::chrono::seconds(60), Extend::kReplace));
  };
  ASSERT_TRUE(renew(early).ok());
  service().fire_deadlines();
  EXPECT_FALSE(renew(late).ok());
  settle();
  EXPECT_EQ(state(early), State::kRunning);
  EXPECT_EQ(state(late), State::kStopped);
  EXPECT_EQ(world_.runner.entries.size(), 1u);
}

// The list is as old as the question. A sandbox that was paused and resumed since is not what it shows.
TEST_F(PausingTest, AListThatIsOlderThanAResumeEndsNothing) {
  std::string moved = created(), dead = created();
  world_.runner.disconnect();
  world_.until([&] { return !service().status().reconciled; });
  world_.runner.entries.at(dead).alive = false;
  world_.runner.hold.insert(wire::Type::kList);
  world_.until([&] { return world_.runner.waiting == 1; });
  ASSERT_TRUE(pause(moved).ok());
  ASSERT_TRUE(connect(moved).ok());
  world_.runner.release_held();
  world_.until([&] { return service().status().reconciled; });
  EXPECT_EQ(state(dead), State::kStopped);
  EXPECT_EQ(state(moved), State::kRunning);
  EXPECT_EQ(rest(moved), Rest::kRuns);
  EXPECT_EQ(generation(moved), 2u);
}

// One that boots from its disk right now has no place in the runner's list.
TEST_F(PausingTest, AListWithoutOneThatIsBeingResumedEndsNothing) {
  std::string id = created();
  ASSERT_TRUE(pause(id, Memory::kLose).ok());
  world_.runner.disconnect();
  world_.until([&] { return !service().status().reconciled; });
  auto entry = world_.runner.entries.extract(id);
  world_.runner.hold.insert(wire::Type::kList);
  world_.until([&] { return world_.runner.waiting == 1; });
  world_.runner.entries.insert(std::move(entry));
  ASSERT_TRUE(connect(id).ok());
  world_.runner.release_held();
  world_.until([&] { return service().status().reconciled; });
  EXPECT_EQ(state(id), State::kRunning);
}

// Field: edge cases of automatic pause (e2b-dev/E2B#1031, #875, #899, #1352).
TEST_F(PausingTest, ADeadlineThatPassedWhileNobodyWatchedPauses) {
  std::string paused = created({.on_timeout = Lifecycle::OnTimeout::kPause}), killed = created();
  world_.flush();
  world_.clock.advance(std::chrono::seconds(61));
  crash_and_return();
  world_.until([&] { return state(paused) == State::kPaused; });
  EXPECT_EQ(rest(paused), Rest::kFrozen);
  EXPECT_EQ(state(killed), State::kStopped);
}

TEST_F(PausingTest, OnlyWhatRestsOnItsDiskOutlivesTheMachine) {
  std::string memory = created(), disk = created();
  ASSERT_TRUE(pause(memory).ok());
  ASSERT_TRUE(pause(disk, Memory::kLose).ok());
  world_.runner.entries.erase(memory);
  world_.set_boot_id("boot-2");
  crash_and_return();
  EXPECT_EQ(state(memory), State::kStopped);
  EXPECT_EQ(state(disk), State::kPaused);
  EXPECT_TRUE(connect(disk).ok());
}

}  // namespace
}  // namespace atl::control
