// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/build_wanted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "apps/cli/supervisor.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

namespace fs = std::filesystem;
using model::BuildNote;
using ::testing::HasSubstr;

class BuildWanted : public testing::Test {
 protected:
  BuildWanted() {
    char name[] = "/tmp/atoll-cli-test-XXXXXX";
    options_.data_dir = ::mkdtemp(name);
    fs::create_directories(wanted(""));
    fs::create_directories(options_.data_dir + "/templates");
    options_.names = {"known"};
    options_.build = [this](const std::string&, const OnProgress&) {
      ++builds_;
      return outcome_;
    };
    options_.enter = [this](const std::string&, const BuildResult& built) {
      entered_.push_back(built.build);
      return BuildWantedOptions::Entered::kNow;
    };
  }
  ~BuildWanted() override { fs::remove_all(options_.data_dir); }

  std::string wanted(const std::string& name) const { return options_.data_dir + "/control/wanted/" + name; }
  void want(const std::string& name = "known") { std::ofstream(wanted(name)) << ""; }
  void run() { EXPECT_TRUE(build_wanted(options_, clock_).ok()); }
  // Its build is killed in the middle.
  void run_killed() {
    pid_t child = ::fork();
    if (child == 0) {
      options_.build = [](const std::string&, const OnProgress& on_progress) -> Result<BuildResult> {
        on_progress(45, "installing");
        ::raise(SIGKILL);
        return make_error(Code::kInternal, "not reached");
      };
      (void)build_wanted(options_, clock_).ok();
      ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }
  Result<BuildNote> note() const {
    TRY(std::string text, sys::read_file(options_.data_dir + "/templates/.first-use/known"));
    return model::parse_build_note(text);
  }

  BuildWantedOptions options_;
  ManualClock clock_;
  Result<BuildResult> outcome_ = BuildResult{"b1", false, 0, 0};
  int builds_ = 0;
  std::vector<std::string> entered_;
};

TEST_F(BuildWanted, BuildsWhatIsAskedForAndNothingElse) {
  run();
  EXPECT_EQ(builds_, 0);
  want();
  want("other");
  run();
  EXPECT_EQ(builds_, 1);
  EXPECT_THAT(entered_, testing::ElementsAre("b1"));
  EXPECT_FALSE(fs::exists(wanted("known")));
  EXPECT_TRUE(fs::exists(wanted("other")));
  EXPECT_FALSE(note().ok());
}

TEST_F(BuildWanted, DropsWhatTheOperatorDoesNotAllow) {
  options_.allowed = false;
  want();
  run();
  EXPECT_EQ(builds_, 0);
  EXPECT_FALSE(fs::exists(wanted("known")));
}

TEST_F(BuildWanted, KeepsTheEndOfALongReasonAndItsCharactersWhole) {
  outcome_ = make_error(Code::kUnavailable, "{}E: no mirror", std::string(5000, '\xc3').append("\xa4"));
  want();
  run();
  ASSERT_TRUE(note().ok());
  EXPECT_LE(note()->text.size(), 1000u);
  EXPECT_THAT(note()->text, testing::EndsWith("E: no mirror"));
}

TEST_F(BuildWanted, SaysHowFarItIs) {
  options_.build = [this](const std::string&, const OnProgress& on_progress) {
    on_progress(45, "installing the packages");
    EXPECT_EQ(note()->percent, 45);
    EXPECT_EQ(note()->text, "installing the packages");
    EXPECT_EQ(note()->state, BuildNote::State::kBuilding);
    return outcome_;
  };
  want();
  run();
}

TEST_F(BuildWanted, AFailureIsTriedAgainOnlyAfterItsDelay) {
  outcome_ = make_error(Code::kInternal, "no mirror").with_hint("try 'apt-get update'");
  want();
  run();
  ASSERT_TRUE(note().ok());
  EXPECT_EQ(note()->state, BuildNote::State::kFailed);
  EXPECT_EQ(note()->text, "no mirror (try 'apt-get update')");
  EXPECT_FALSE(fs::exists(wanted("known")));
  want();  // too early, whoever it was
  run();
  EXPECT_EQ(builds_, 1);
  EXPECT_FALSE(fs::exists(wanted("known")));
  clock_.advance(model::build_delay(1));
  want();
  run();
  EXPECT_EQ(builds_, 2);
  EXPECT_EQ(note()->not_before, clock_.now() + model::build_delay(2));
  clock_.advance(model::build_delay(2));
  outcome_ = BuildResult{"b2", false, 0, 0};
  want();
  run();
  EXPECT_THAT(entered_, testing::ElementsAre("b2"));
  EXPECT_FALSE(note().ok()) << "what failed before does not count any more";
}

TEST_F(BuildWanted, OneThatControlIsNotToldOfIsAFailure) {
  options_.enter = [](const std::string&, const BuildResult&) -> Result<BuildWantedOptions::Entered> {
    return make_error(Code::kUnavailable, "control is away");
  };
  want();
  run();
  EXPECT_EQ(note()->text, "control is away");
}

TEST_F(BuildWanted, OneThatIsNotUsedIsNoFailure) {
  options_.enter = [](const std::string&, const BuildResult&) -> Result<BuildWantedOptions::Entered> {
    return BuildWantedOptions::Entered::kKept;
  };
  want();
  run();
  EXPECT_FALSE(note().ok());
  EXPECT_FALSE(fs::exists(wanted("known")));
}

// What kills a build may kill each one: memory that is too small, for example.
TEST_F(BuildWanted, OneThatIsKilledAgainAndAgainIsAFailure) {
  want();
  for (unsigned n = 0; n < 3; ++n) {
    run_killed();
    EXPECT_TRUE(fs::exists(wanted("known"))) << "it is still asked for";
    EXPECT_EQ(note()->tries, n + 1);
    EXPECT_EQ(note()->broken, n);
  }
  run();
  EXPECT_EQ(builds_, 0);
  EXPECT_EQ(note()->state, BuildNote::State::kFailed);
  EXPECT_EQ(note()->text, "it was broken off 3 times, the last time at 45 % (installing)");
  EXPECT_FALSE(fs::exists(wanted("known")));
}

TEST_F(BuildWanted, FailuresAreNotCountedAsBrokenOff) {
  outcome_ = make_error(Code::kInternal, "no mirror");
  for (unsigned failures = 1; failures <= 3; ++failures) {
    want();
    run();
    clock_.advance(model::build_delay(failures));
  }
  ASSERT_EQ(note()->tries, 3u);
  want();
  run_killed();
  EXPECT_EQ(note()->broken, 0u);
  outcome_ = BuildResult{"b1", false, 0, 0};
  run();
  EXPECT_THAT(entered_, testing::ElementsAre("b1")) << "one that was killed once is tried again";
}

TEST_F(BuildWanted, WhatWasNotedOfOneThatIsBuiltByHandIsForgotten) {
  outcome_ = make_error(Code::kInternal, "no mirror");
  want();
  run();
  ASSERT_TRUE(note().ok());
  EXPECT_TRUE(forget_build_note(options_.data_dir, "known").ok());
  EXPECT_FALSE(note().ok());
  EXPECT_TRUE(forget_build_note(options_.data_dir, "known").ok());
}

// The folder is control's: what is in it is hostile when control is.
TEST_F(BuildWanted, FollowsNoLinkOfControl) {
  fs::create_directory(options_.data_dir + "/elsewhere");
  std::ofstream(options_.data_dir + "/elsewhere/known") << "mine";
  fs::remove(wanted(""));
  fs::remove_all(options_.data_dir + "/control/wanted");
  fs::create_directory_symlink(options_.data_dir + "/elsewhere", options_.data_dir + "/control/wanted");
  run();
  fs::remove(options_.data_dir + "/control/wanted");
  fs::create_directory(options_.data_dir + "/control/wanted");
  fs::create_symlink(options_.data_dir + "/elsewhere/known", wanted("known"));
  run();
  fs::remove(wanted("known"));
  fs::create_directory(wanted("known"));
  run();
  EXPECT_EQ(builds_, 0);
  EXPECT_TRUE(fs::exists(options_.data_dir + "/elsewhere/known"));
}

}  // namespace
}  // namespace atl::cli
