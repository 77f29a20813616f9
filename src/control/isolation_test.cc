// SPDX-License-Identifier: Apache-2.0
//
// Which tier a create is given: minimums hold, only stronger tiers stand in, and what was asked is kept.
#include <gmock/gmock.h>

#include "support/service_fixture.h"

namespace atl::control {
namespace {

using model::Asker;
using model::Tier;
using test::kBuild;

constexpr Tier kC = Tier::kContainer, kG = Tier::kGvisor, kM = Tier::kMicrovm;

model::Tiers set_of(std::initializer_list<Tier> tiers) {
  model::Tiers out = 0;
  for (Tier tier : tiers) out |= model::tiers_of(tier);
  return out;
}

class IsolationTest : public test::ServiceTest {
 protected:
  IsolationTest() { start("container"); }
  // With this as the host's default.
  void start(std::string_view standard, std::uint32_t pool = 0, ServiceOptions options = {}) {
    options.default_isolation = *model::parse_host_default(standard);
    ServiceTest::start(pool, std::move(options));
  }
  // Another runner takes over, with these tiers.
  void offer(std::initializer_list<Tier> tiers) {
    runner().tiers = set_of(tiers);
    runner().disconnect();
    world().until([this] { return !service().status().runner_connected; });
    world().connect();
  }
  Result<SandboxView> ask(std::string_view isolation, std::string_view risk = "") {
    CreateSpec spec = world().spec();
    if (!isolation.empty()) spec.isolation = model::parse_isolation(isolation);
    if (!risk.empty()) spec.risk = model::parse_isolation(risk);
    return world().create(spec);
  }
  void expect(const Result<SandboxView>& made, Tier tier, std::string_view asked, Asker by) {
    ASSERT_TRUE(made.ok()) << made.error().message();
    EXPECT_EQ((*made)->tier, tier);
    EXPECT_EQ((*made)->asked.word.text(), asked);
    EXPECT_EQ((*made)->asked.by, by);
    EXPECT_EQ(runner().entries[(*made)->id].tier, tier) << "what was really started";
  }
  void expect_refused(const Result<SandboxView>& made, std::initializer_list<const char*> named) {
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().word(), "isolation_unavailable");
    for (const char* text : named) EXPECT_THAT(made.error().message(), testing::HasSubstr(text));
  }
  void tenant_says(std::string_view standard, std::string_view minimum) {
    auto done = world().run(world().identity->set_isolation(world().tenant, rule(standard, minimum)));
    ASSERT_TRUE(done.ok()) << done.error().message();
  }
  void template_says(std::string_view standard, std::string_view minimum) {
    auto settings = Catalog::settings_of(*world().catalog->find(world().tenant, "base"));
    settings.isolation = rule(standard, minimum);
    auto done = world().run(world().catalog->change(world().tenant, "base", settings));
    ASSERT_TRUE(done.ok()) << done.error().message();
  }
  static model::IsolationRule rule(std::string_view standard, std::string_view minimum) {
    return {model::parse_isolation(standard), model::parse_isolation(minimum)};
  }
};

TEST_F(IsolationTest, OnlyStrongerTiersStandInAndWhatWasAskedIsKept) {
  offer({kC, kM});
  expect(ask("gvisor"), kM, "gvisor", Asker::kCaller);
  expect(ask("", "medium"), kM, "medium", Asker::kCaller);
  expect(ask("container"), kC, "container", Asker::kCaller);
  expect(ask("container", "high"), kM, "high", Asker::kCaller);
  expect(ask(""), kC, "container", Asker::kHost);
  offer({kG});
  expect(ask("", "low"), kG, "low", Asker::kCaller);
  std::size_t before = runner().started;
  expect_refused(ask("microvm"), {"microvm"});
  expect_refused(ask("", "high"), {"'high'", "microvm"});
  EXPECT_EQ(runner().started, before) << "nothing weaker was made instead";
}

TEST_F(IsolationTest, AnEmulatedMachineIsGivenToThoseWhoAskForItAndStandsInForNothing) {
  runner().features.error[static_cast<std::size_t>(model::Feature::kKvm)] = 2;
  offer({kC, kM});
  std::size_t before = runner().started;
  expect_refused(ask("gvisor"), {"gvisor: ", "microvm: it is only emulated"});
  EXPECT_EQ(runner().started, before);
  expect(ask("microvm"), kM, "microvm", Asker::kCaller);
  expect(ask("", "high"), kM, "high", Asker::kCaller);
}

TEST_F(IsolationTest, ARefusalNamesTheFailingCheckOfEachTierThatWasTried) {
  runner().obstacles = {{kG, "there is no runsc in PATH"}, {kM, "there is no qemu"}};
  offer({kC});
  expect_refused(ask("gvisor"), {"gvisor: there is no runsc in PATH", "microvm: there is no qemu"});
  expect_refused(ask("microvm"), {"microvm: there is no qemu"});
  EXPECT_THAT(ask("microvm").error().message(), testing::Not(testing::HasSubstr("runsc")));
}

TEST_F(IsolationTest, NobodyGoesBelowAMinimum) {
  offer({kC, kG, kM});
  tenant_says("", "medium");
  expect(ask(""), kG, "medium", Asker::kTenantMinimum);
  expect(ask("container"), kG, "medium", Asker::kTenantMinimum);
  expect(ask("microvm"), kM, "microvm", Asker::kCaller);
  template_says("", "microvm");
  expect(ask("gvisor", "low"), kM, "microvm", Asker::kTemplateMinimum);
  offer({kC, kG});
  std::size_t before = runner().started;
  expect_refused(ask("container"), {"microvm"});
  EXPECT_EQ(runner().started, before);
}

TEST_F(IsolationTest, DefaultsAreForThoseWhoSayNothingAndSurviveARestart) {
  template_says("gvisor", "");
  tenant_says("low", "");
  world().crash();
  world().reopen();
  world().connect();
  offer({kC, kG, kM});
  expect(ask(""), kG, "gvisor", Asker::kTemplate);
  tenant_says("high", "");
  expect(ask(""), kM, "high", Asker::kTenant);
  expect(ask("container"), kC, "container", Asker::kCaller);
}

TEST_F(IsolationTest, TheHostsDefaultMayBeAutoAndIsLoudWhenItIsWeak) {
  start("auto");
  EXPECT_EQ(service().status().default_tier, kC);
  expect(ask(""), kC, "container", Asker::kHost);
  testing::internal::CaptureStderr();
  offer({kC});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("DEGRADED"));
  testing::internal::CaptureStderr();
  offer({kC, kG});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::Not(testing::HasSubstr("DEGRADED")));
  EXPECT_EQ(service().status().default_tier, kG);
  expect(ask(""), kG, "gvisor", Asker::kHost);
}

// Nobody gets a weaker tier because the test of a stronger one has not ended.
class UntestedTest : public IsolationTest {
 protected:
  UntestedTest() { start("auto"); }
  // A runner that is testing these comes.
  void test(std::initializer_list<Tier> usable, std::initializer_list<Tier> tested) {
    runner().tested_tiers = set_of(tested);
    offer(usable);
  }
  void ask_in_background(std::string_view isolation) {
    CreateSpec spec = world().spec();
    if (!isolation.empty()) spec.isolation = model::parse_isolation(isolation);
    world().spawn(service().create(spec), [this](Result<SandboxView> made) { made_.push_back(made); });
  }
  std::vector<Result<SandboxView>> made_;
};

TEST_F(UntestedTest, CreatesWaitForTheTestOfWhatTheyNeed) {
  test({kC}, {kG, kM});
  ask_in_background("");
  ask_in_background("gvisor");
  ask_in_background("microvm");
  expect(ask("container"), kC, "container", Asker::kCaller);  // takes as long as any of them would have taken
  EXPECT_EQ(made_.size(), 0u);
  EXPECT_EQ(service().status().default_tier, kG);
  runner().end_tests(set_of({kC, kG}));
  world().until([this] { return made_.size() == 3; });
  std::multiset<Tier> given;
  for (const Result<SandboxView>& made : made_) {
    if (made.ok()) given.insert((*made)->tier);
    if (!made.ok()) expect_refused(made, {"microvm"});
  }
  EXPECT_THAT(given, testing::ElementsAre(kG, kG));
}

TEST_F(UntestedTest, WhereTheTestFailsTheDefaultIsWhatAutoSays) {
  test({kC}, {kG});
  ask_in_background("");
  testing::internal::CaptureStderr();
  runner().end_tests(set_of({kC}));
  world().until([this] { return made_.size() == 1; });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("DEGRADED"));
  expect(made_.front(), kC, "container", Asker::kHost);
}

TEST_F(UntestedTest, ATestThatTakesTooLongIsARefusalToBeTriedAgain) {
  ServiceOptions options;
  options.test_patience = Millis(0);
  start("auto", 0, options);
  test({kC}, {kG});
  std::size_t before = runner().started;
  for (const char* word : {"", "gvisor"}) {
    auto made = ask(word);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().word(), "isolation_being_tested");
    EXPECT_EQ(made.error().code(), Code::kUnavailable) << "clients try such answers again";
  }
  EXPECT_EQ(runner().started, before);
  runner().end_tests(set_of({kC, kG}));
  world().until([this] { return service().status().runner.tested_tiers == 0; });
  expect(ask(""), kG, "gvisor", Asker::kHost);
}

// A waiting create must not hold up the end of the daemon.
TEST_F(UntestedTest, ARunnerThatGoesAwayEndsTheWait) {
  test({kC}, {kG});
  ask_in_background("gvisor");
  world().step();
  runner().down = true;
  runner().disconnect();
  world().until([this] { return made_.size() == 1; });
  EXPECT_EQ(made_.front().error().word(), "runner_unavailable");
}

TEST_F(UntestedTest, WhatRestsIsWokenOnceByAllWhoWaitForTheTest) {
  offer({kC, kG});
  std::string id = (*ask("gvisor"))->id;
  using Memory = SandboxService::Memory;
  ASSERT_TRUE(world().run(service().pause(world().tenant, id, Memory::kKeep)).ok());
  test({kC}, {kG});
  std::vector<bool> resumed;
  for (int i = 0; i < 2; ++i) {
    world().spawn(service().connect(world().tenant, id, std::chrono::seconds(60), Memory::kKeep),
                  [&](Result<SandboxService::Connected> done) {
                    ASSERT_TRUE(done.ok()) << done.error().message();
                    resumed.push_back(done->resumed);
                  });
  }
  world().step();
  EXPECT_EQ(runner().resumes, 0u);
  runner().end_tests(set_of({kC, kG}));
  world().until([&] { return resumed.size() == 2; });
  EXPECT_EQ(runner().resumes, 1u);
  EXPECT_NE(resumed[0], resumed[1]);
}

TEST_F(UntestedTest, AReadySandboxStaysReadyWhileItsTierIsTested) {
  start("auto", 2);
  offer({kC, kG});
  world().fill();
  settle();
  auto ready_of = [this](Tier tier) {
    return std::count_if(runner().entries.begin(), runner().entries.end(),
                         [tier](const auto& entry) { return entry.second.tier == tier; });
  };
  ASSERT_EQ(ready_of(kG), 2);
  std::size_t before = runner().started;
  test({kC}, {kG});
  world().fill();
  settle();
  EXPECT_EQ(ready_of(kG), 2);
  EXPECT_EQ(ready_of(kC), 0);
  EXPECT_EQ(runner().started, before);
}

TEST_F(IsolationTest, AHostDefaultThatIsNotUsableIsNotWeakened) {
  start("gvisor");
  std::size_t before = runner().started;
  expect_refused(ask(""), {"gvisor"});
  EXPECT_EQ(runner().started, before);
  offer({kC, kM});
  expect(ask(""), kM, "gvisor", Asker::kHost);
}

TEST_F(IsolationTest, ThePoolIsOfTheDefaultTierAndFollowsIt) {
  start("container", 2);
  ASSERT_EQ(service().status().ready, 2u);
  offer({kC, kG});
  template_says("gvisor", "");
  world().fill();
  settle();
  EXPECT_EQ(service().status().ready, 2u);
  for (const auto& [id, entry] : runner().entries)
    EXPECT_EQ(entry.tier, kG) << "one of the other tier was kept";
  std::size_t before = runner().started;
  expect(ask(""), kG, "gvisor", Asker::kTemplate);
  EXPECT_EQ(runner().started, before) << "a ready one was claimed";
  expect(ask("container"), kC, "container", Asker::kCaller);
  EXPECT_EQ(runner().started, before + 1) << "a ready one of another tier was not";
}

TEST_F(IsolationTest, ACopyOfADiskKeepsItsTierAndMinimumsHoldForIt) {
  offer({kC, kG});
  std::string parent = create_one();
  auto taken = world().run(service().snapshot({world().tenant, parent, "mine", false}));
  ASSERT_TRUE(taken.ok()) << taken.error().message();
  auto from = [this](std::string_view isolation) {
    CreateSpec spec = world().spec();
    spec.template_ref = "mine";
    if (!isolation.empty()) spec.isolation = model::parse_isolation(isolation);
    return world().create(spec);
  };
  template_says("gvisor", "");  // a default does not matter for it
  expect(from(""), kC, "container", Asker::kSnapshot);
  expect(from("container"), kC, "container", Asker::kCaller);
  expect_refused(from("gvisor"), {"container", "gvisor"});
  tenant_says("", "gvisor");
  expect_refused(from(""), {"container", "gvisor", "tenant_minimum"});
  ForkSpec fork;
  fork.tenant = world().tenant;
  fork.sandbox = parent;
  fork.timeout = std::chrono::seconds(60);
  auto children = world().run(service().fork(fork));
  ASSERT_FALSE(children.ok());
  EXPECT_EQ(children.error().word(), "isolation_unavailable");
}

// A copy of a copy is of the same template.
TEST_F(IsolationTest, AMinimumOfTheTemplateHoldsForCopiesOfCopies) {
  offer({kC, kG});
  std::string of = create_one();
  for (const char* name : {"first", "second"}) {
    ASSERT_TRUE(world().run(service().snapshot({world().tenant, of, name, false})).ok());
    CreateSpec spec = world().spec();
    spec.template_ref = name;
    auto made = world().create(spec);
    ASSERT_TRUE(made.ok()) << made.error().message();
    of = (*made)->id;
  }
  template_says("", "gvisor");
  CreateSpec spec = world().spec();
  spec.template_ref = "second";
  expect_refused(world().create(spec), {"container", "gvisor", "template_minimum"});
}

TEST_F(IsolationTest, AForkIsOfTheTierThatWasAskedForOrRefused) {
  offer({kC, kG});
  ForkSpec fork;
  fork.tenant = world().tenant;
  fork.sandbox = create_one();
  fork.timeout = std::chrono::seconds(60);
  fork.isolation = model::parse_isolation("gvisor");
  auto children = world().run(service().fork(fork));
  ASSERT_FALSE(children.ok());
  EXPECT_EQ(children.error().word(), "isolation_unavailable");
  fork.isolation = model::parse_isolation("container");
  EXPECT_TRUE(world().run(service().fork(fork)).ok());
}

// Each change starts from the rule as it is, also while another one is being written.
TEST_F(IsolationTest, ChangesAtTheSameTimeKeepEachOther) {
  int done = 0;
  auto change = [&](std::string_view standard, std::string_view minimum) {
    model::IsolationRule tenant = world().identity->find_tenant(world().tenant)->isolation;
    model::IsolationRule base = world().catalog->find(world().tenant, "base")->isolation;
    for (model::IsolationRule* one : {&tenant, &base}) {
      if (!standard.empty()) one->standard = model::parse_isolation(standard);
      if (!minimum.empty()) one->minimum = model::parse_isolation(minimum);
    }
    world().spawn(world().identity->set_isolation(world().tenant, tenant), [&](auto) { ++done; });
    Catalog::Settings settings{base, 0u};
    world().spawn(world().catalog->change(world().tenant, "base", settings), [&](auto) { ++done; });
    for (int i = 0; i < 4; ++i) world().step();
  };
  change("container", "");
  change("", "gvisor");
  world().until([&] { return done == 4; });
  EXPECT_EQ(world().identity->find_tenant(world().tenant)->isolation, rule("container", "gvisor"));
  EXPECT_EQ(world().catalog->find(world().tenant, "base")->isolation, rule("container", "gvisor"));
}

TEST_F(IsolationTest, LayersThatTheTierLacksAreKeptWithEachSandbox) {
  runner().features.error[static_cast<std::size_t>(model::Feature::kLandlock)] = 38;
  offer({kC, kG});
  std::uint64_t landlock = 1u << static_cast<unsigned>(model::Feature::kLandlock);
  auto weak = ask("container");
  ASSERT_TRUE(weak.ok());
  EXPECT_EQ((*weak)->missing_layers, landlock);
  EXPECT_EQ((*ask("gvisor"))->missing_layers, 0u) << "it has no use for Landlock";
  restart();
  EXPECT_EQ((*service().get(world().tenant, (*weak)->id))->missing_layers, landlock);
  EXPECT_EQ((*service().get(world().tenant, (*weak)->id))->asked.by, Asker::kCaller);
}

}  // namespace
}  // namespace atl::control
