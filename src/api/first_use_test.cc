// SPDX-License-Identifier: Apache-2.0
//
// Templates that are built when they are first asked for, as clients see it. The builder is played here.
#include "control/first_use.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/api_fixture.h"
#include "sys/files.h"

namespace atl::api {
namespace {

namespace fs = std::filesystem;
using model::BuildNote;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kCreate[] = R"({"templateID":"code-interpreter-v1"})";

class FirstUseApiTest : public test::ApiFixture {
 protected:
  FirstUseApiTest() {
    auto opened = control::FirstUse::open(data_dir(), api_.world.clock);
    EXPECT_TRUE(opened.ok());
    api_.world.catalog->build_at_first_use(std::move(*opened));
    fs::create_directories(data_dir() + "/templates/.first-use");
  }
  std::string data_dir() { return api_.world.path("."); }
  std::string wanted() { return data_dir() + "/control/wanted/code-interpreter-v1"; }
  void note(BuildNote note) {
    std::ofstream(data_dir() + "/templates/.first-use/code-interpreter-v1") << model::format_build_note(note);
  }
  // As long as the answer is kept, somebody builds.
  sys::Fd builder() {
    auto lock = sys::open_file(data_dir() + "/templates/.first-use/.lock", O_RDWR | O_CREAT, 0644);
    struct flock all{};
    all.l_type = F_WRLCK;
    EXPECT_TRUE(lock.ok() && ::fcntl(lock->get(), F_OFD_SETLK, &all) == 0);
    return std::move(*lock);
  }
  auto create() { return call("POST", "/v2/sandboxes", kCreate); }
};

TEST_F(FirstUseApiTest, ACreateAsksForTheBuildAndSaysHowFarItIs) {
  auto asked = create();
  EXPECT_EQ(asked.status, 503) << asked.text;
  EXPECT_EQ(asked.word(), "template_building");
  EXPECT_EQ(asked.header("retry-after"), "5");
  EXPECT_THAT(asked.message(), HasSubstr("begins now"));
  EXPECT_TRUE(fs::exists(wanted()));
  EXPECT_EQ(call("GET", "/v1/status").body.at("builds").at(0).at("state"), "waiting");
  sys::Fd builds = builder();
  note({BuildNote::State::kBuilding, 45, "installing the packages", api_.world.clock.now(), {}, 1, 0});
  api_.world.clock.advance(std::chrono::seconds(30));
  asked = create();
  EXPECT_EQ(asked.status, 503);
  EXPECT_THAT(asked.message(), HasSubstr("45 % (installing the packages), begun 30 s ago"));
  auto told = call("GET", "/v1/templates").body.at("builds").at(0);
  EXPECT_EQ(told.at("state"), "building");
  EXPECT_EQ(told.at("percent"), 45);
  EXPECT_EQ(told.at("brokenOff"), 0);
}

TEST_F(FirstUseApiTest, ABuildThatWasKilledIsNotSaidToGoOn) {
  note({BuildNote::State::kBuilding, 45, "installing the packages", api_.world.clock.now(), {}, 2, 1});
  EXPECT_TRUE(call("GET", "/v1/status").body.at("builds").as_array().empty()) << "nobody asks for it";
  auto asked = create();
  EXPECT_EQ(asked.word(), "template_building");
  EXPECT_THAT(asked.message(), HasSubstr("broken off at 45 % (installing the packages), try 2 of 3"));
  EXPECT_TRUE(fs::exists(wanted())) << "it is asked for again";
  auto told = call("GET", "/v1/status").body.at("builds").at(0);
  EXPECT_EQ(told.at("state"), "waiting");
  EXPECT_EQ(told.at("brokenOff"), 2);
  sys::Fd builds = builder();
  EXPECT_THAT(create().message(), HasSubstr("is being built"));
  told = call("GET", "/v1/status").body.at("builds").at(0);
  EXPECT_EQ(told.at("state"), "building");
  EXPECT_EQ(told.at("brokenOff"), 1);
}

TEST_F(FirstUseApiTest, AFailureSaysWhyAndIsTriedAgainLater) {
  auto now = api_.world.clock.now();
  note({BuildNote::State::kFailed, 0, "no mirror", now, now + std::chrono::minutes(1), 1, 0});
  auto asked = create();
  EXPECT_EQ(asked.status, 503);
  EXPECT_EQ(asked.word(), "template_build_failed");
  EXPECT_EQ(asked.header("retry-after"), "60");
  EXPECT_THAT(asked.message(), HasSubstr("no mirror"));
  EXPECT_THAT(asked.message(), HasSubstr("/log/template.log"));
  EXPECT_FALSE(fs::exists(wanted())) << "no loop of builds";
  EXPECT_EQ(call("GET", "/v1/status").body.at("builds").at(0).at("state"), "failed");
  api_.world.clock.advance(std::chrono::minutes(1));
  asked = create();
  EXPECT_EQ(asked.word(), "template_building");
  EXPECT_TRUE(fs::exists(wanted()));
}

TEST_F(FirstUseApiTest, SaysThatNobodyBuilds) {
  create();
  api_.world.clock.advance(std::chrono::minutes(5));
  EXPECT_THAT(create().message(), HasSubstr("nothing has begun to build it for 5 min"));
}

TEST_F(FirstUseApiTest, ATemplateThatIsThereIsNotAskedFor) {
  note({BuildNote::State::kFailed, 0, "no mirror", {1}, {2}, 1, 0});
  api_.world.add_template("code-interpreter-v1", test::kBuild2, 0);
  EXPECT_EQ(create().status, 201);
  EXPECT_FALSE(fs::exists(wanted()));
  EXPECT_TRUE(call("GET", "/v1/status").body.at("builds").as_array().empty());
}

TEST_F(FirstUseApiTest, ANameThatIsTakenIsNotAskedFor) {
  std::string other = api_.other_key();
  auto own = call("POST", "/v1/templates",
                  fmt::format(R"({{"name":"code-interpreter-v1:mine","buildId":"{}"}})", test::kBuild2));
  ASSERT_EQ(own.status, 201) << own.text;
  EXPECT_EQ(create().word(), "template_not_found") << "without the tag that is asked for";
  EXPECT_EQ(call("POST", "/v2/sandboxes", kCreate, other).word(), "template_not_found");
  EXPECT_FALSE(fs::exists(wanted()));
}

TEST_F(FirstUseApiTest, OnlyACreateOfAKnownNameAsks) {
  EXPECT_EQ(call("POST", "/v2/sandboxes", R"({"templateID":"other"})").status, 404);
  EXPECT_EQ(call("POST", "/v2/sandboxes", R"({"templateID":"../wanted"})").status, 400);
  EXPECT_EQ(call("GET", "/templates/code-interpreter-v1").status, 404);
  EXPECT_EQ(call("DELETE", "/v1/templates/code-interpreter-v1").status, 404);
  EXPECT_TRUE(fs::is_empty(data_dir() + "/control/wanted"));
}

class NoFirstUseApiTest : public test::ApiFixture {};

TEST_F(NoFirstUseApiTest, WhereItIsOffTheCommandIsTold) {
  auto asked = call("POST", "/v2/sandboxes", kCreate);
  EXPECT_EQ(asked.status, 404);
  EXPECT_EQ(asked.word(), "template_not_built");
  EXPECT_THAT(asked.message(), HasSubstr("atoll template build code-interpreter-v1"));
}

}  // namespace
}  // namespace atl::api
