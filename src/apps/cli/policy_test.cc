// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include <CLI/CLI.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/registry.h"

namespace atl::cli {
namespace {

using testing::HasSubstr;

class PolicyCommandTest : public testing::Test {
 protected:
  PolicyCommandTest() {
    std::ofstream(rules_) << R"~({"version":1,"default":"deny","rules":[
      {"id":"api","action":"allow","hosts":["api.example"],"methods":["GET"],"credential":"key"},
      {"id":"json","action":"allow","hosts":["json.example"],
       "when":"json('/a') == 1 && time < '12:00' && has(header['x-a'])"}]})~";
    std::ofstream(body_) << R"({"a":1})";
  }

  int run(std::vector<std::string> arguments) {
    Commands commands;
    register_all(commands);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    int status = commands.run(std::move(arguments));
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return status;
  }

  std::string rules_ = testing::TempDir() + "/rules.json", body_ = testing::TempDir() + "/body.json";
  std::string out_, err_;
};

TEST_F(PolicyCommandTest, TellsTheDecisionByItsStatusAndEveryRule) {
  EXPECT_EQ(run({"policy", "test", "--sandbox", rules_, "GET", "https://api.example/v1"}), kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("allow: sandbox/api"));
  EXPECT_EQ(run({"policy", "test", "--sandbox", rules_, "PUT", "https://api.example/v1"}), kExitUnhealthy);
  EXPECT_THAT(out_, HasSubstr("deny: default"));
  EXPECT_THAT(out_, HasSubstr("rule sandbox/api allows this host, but not this method"));
  EXPECT_EQ(run({"policy", "test", "--json", "--sandbox", rules_, "GET", "https://api.example/"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr(R"("credentials":["key"])"));
}

TEST_F(PolicyCommandTest, TakesEverythingThatRulesLookAt) {
  std::vector<std::string> words = {
      "policy", "test",   "--sandbox", rules_,      "--body",  body_,  "--header",
      "X-A: b", "--time", "09:30",     "--address", "1.2.3.4", "POST", "https://json.example/"};
  EXPECT_EQ(run(words), kExitOk) << out_ << err_;
  words[9] = "13:00";
  EXPECT_EQ(run(words), kExitUnhealthy);
  words[9] = "25:00";
  EXPECT_EQ(run(words), kExitAtoll);
  words[9] = "09:30";
  words[11] = "127.0.0.1";
  EXPECT_EQ(run(words), kExitUnhealthy);
  EXPECT_THAT(out_, HasSubstr("special-address"));
}

TEST_F(PolicyCommandTest, SaysWhereRulesAreWrong) {
  EXPECT_EQ(run({"policy", "check", "--tenant", rules_}), kExitOk);
  std::ofstream(rules_) << R"({"version":1,"rules":[{"action":"allow","hosts":["a.example"],"port":443}]})";
  EXPECT_EQ(run({"policy", "check", "--tenant", rules_}), kExitAtoll);
  EXPECT_THAT(err_, HasSubstr(rules_ + ": rules[0]: port: is not known here"));
  EXPECT_EQ(run({"policy", "check"}), kExitAtoll);
  EXPECT_THAT(err_, HasSubstr("no rules are given"));
}

}  // namespace
}  // namespace atl::cli
