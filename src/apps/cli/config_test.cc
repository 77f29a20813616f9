// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atl::cli {
namespace {

using testing::HasSubstr;

TEST(Config, TakesEveryKey) {
  auto config = parse_config(R"(
instance = "two"
data_dir = "/srv/atoll"
run_dir = "/run/two"
user = "atoll2"
[server]
listen = ["127.0.0.1:7500", "0.0.0.0:7501"]
plain = "anywhere"
domain = "two.localhost"
[slots]
first = 300
count = 50
[pool]
ready = 0
[templates]
base = false
)",
                             "atoll.toml");
  ASSERT_TRUE(config.ok()) << config.error().message();
  EXPECT_EQ(config->instance, "two");
  EXPECT_EQ(config->data_dir, "/srv/atoll");
  EXPECT_EQ(config->run_dir, "/run/two");
  EXPECT_EQ(config->user, "atoll2");
  EXPECT_EQ(config->listen, (std::vector<std::string>{"127.0.0.1:7500", "0.0.0.0:7501"}));
  EXPECT_EQ(config->plain, Plain::kAnywhere);
  EXPECT_EQ(config->domain, "two.localhost");
  EXPECT_EQ(config->slot_first, 300u);
  EXPECT_EQ(config->slot_count, 50u);
  EXPECT_EQ(config->ready_sandboxes, 0u);
  EXPECT_FALSE(config->base_template);
  EXPECT_TRUE(check_config(*config).ok());
}

TEST(Config, DefaultsPassTheirOwnCheck) { EXPECT_TRUE(check_config(Config{}).ok()); }

TEST(Config, UnknownKeyIsRefusedWithItsLineAndASuggestion) {
  auto config = parse_config("instance = \"a\"\n\n[server]\nlisen = \"x\"\n", "atoll.toml");
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().message(), HasSubstr("atoll.toml:4: unknown key 'server.lisen'"));
  EXPECT_THAT(config.error().hint(), HasSubstr("server.listen"));
}

TEST(Config, UnknownTableIsRefused) {
  auto config = parse_config("[serve]\nlisten = \"x\"\n", "atoll.toml");
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().message(), HasSubstr("serve.listen"));
}

TEST(Config, WrongTypeNamesTheLineAndWhatIsWanted) {
  auto config = parse_config("[slots]\ncount = \"many\"\n", "atoll.toml");
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().message(), HasSubstr("atoll.toml:2: 'slots.count' must be a whole number"));
}

TEST(Config, BrokenTomlNamesTheLine) {
  auto config = parse_config("instance = \"a\"\nx = = 1\n", "atoll.toml");
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().message(), HasSubstr("atoll.toml:2:"));
}

TEST(Config, ValuesThatCannotWorkAreRefused) {
  auto refused = [](auto change) {
    Config config;
    change(config);
    return !check_config(config).ok();
  };
  EXPECT_TRUE(refused([](Config& c) { c.instance = "No Good"; }));
  EXPECT_TRUE(refused([](Config& c) { c.data_dir = "relative"; }));
  EXPECT_TRUE(refused([](Config& c) { c.run_dir = "/a/../etc"; }));
  EXPECT_TRUE(refused([](Config& c) { c.run_dir = c.data_dir; }));
  EXPECT_TRUE(refused([](Config& c) { c.slot_count = 0; }));
  EXPECT_TRUE(refused([](Config& c) { c.patience = 0; }));
  EXPECT_TRUE(refused([](Config& c) { c.patience = 21; }));
  EXPECT_TRUE(refused([](Config& c) { c.slot_first = 60000; }));
  EXPECT_TRUE(refused([](Config& c) { c.listen = {"localhost:1"}; }));
  EXPECT_TRUE(refused([](Config& c) { c.listen.clear(); }));
  EXPECT_TRUE(refused([](Config& c) { c.domain = "a:1"; }));
}

TEST(Config, AMissingFileMeansDefaultsUnlessItWasNamed) {
  EXPECT_TRUE(load_config("/nonexistent/atoll.toml", Required::kNo).ok());
  EXPECT_FALSE(load_config("/nonexistent/atoll.toml", Required::kYes).ok());
}

}  // namespace
}  // namespace atl::cli
