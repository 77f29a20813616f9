// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "net/datagram.h"

namespace atl::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;

Config listening(std::vector<std::string> addresses, Plain plain = Plain::kLoopback) {
  Config config;
  config.listen = std::move(addresses);
  config.plain = plain;
  return config;
}

TEST(LocalUrl, PrefersLoopbackAndUsesTlsWherePlainIsNotAnswered) {
  EXPECT_EQ(local_url(listening({"127.0.0.1:7400"})), "http://127.0.0.1:7400");
  EXPECT_EQ(local_url(listening({"10.0.0.5:443", "127.0.0.1:7400"})), "http://127.0.0.1:7400");
  EXPECT_EQ(local_url(listening({"0.0.0.0:7400"})), "https://127.0.0.1:7400");
  EXPECT_EQ(local_url(listening({"0.0.0.0:7400"}, Plain::kAnywhere)), "http://127.0.0.1:7400");
  EXPECT_EQ(local_url(listening({"[::]:7400"})), "https://[::1]:7400");
}

TEST(LocalAddress, IsAddedWhenOthersCannotBeReachedByName) {
  Config config = listening({"10.0.0.5:7400"});
  ASSERT_TRUE(ensure_local_address(config).ok());
  EXPECT_THAT(config.listen, ElementsAre("10.0.0.5:7400", "127.0.0.1:7400"));
  config = listening({"0.0.0.0:7400"});
  ASSERT_TRUE(ensure_local_address(config).ok());
  EXPECT_THAT(config.listen, ElementsAre("0.0.0.0:7400"));
}

TEST(ChoosePorts, ReplacesZeroByAFreePort) {
  Config config = listening({"127.0.0.1:0", "127.0.0.1:7400"});
  ASSERT_TRUE(choose_ports(config).ok());
  EXPECT_NE(config.listen[0], "127.0.0.1:0");
  EXPECT_TRUE(config.listen[0].starts_with("127.0.0.1:"));
  EXPECT_EQ(config.listen[1], "127.0.0.1:7400");
}

TEST(ChooseGatewayPort, TakesAnotherWhenTheUsualOneIsTaken) {
  // Whoever else has the port, after this it is taken.
  async::asio::io_context loop;
  auto other = net::bind_udp(loop.get_executor(), {"0.0.0.0", 7401});
  Config config;
  ASSERT_TRUE(choose_gateway_port(config).ok());
  EXPECT_NE(config.gateway_port, 7401u);
  EXPECT_NE(config.gateway_port, 0u);
  config.gateway_port = 7402;  // asked for: it is kept, and the daemon says that it is taken
  ASSERT_TRUE(choose_gateway_port(config).ok());
  EXPECT_EQ(config.gateway_port, 7402u);
}

TEST(ConfigFlags, OfAnOlderVersionHaveNoGateway) {
  EXPECT_TRUE(Config().gateway);
  auto running = config_of_flags({"--no-config", "--gateway-port", "7401"});
  ASSERT_TRUE(running.ok());
  EXPECT_FALSE(running->gateway);
  auto now = config_of_flags(config_flags(Config()));
  ASSERT_TRUE(now.ok());
  EXPECT_TRUE(now->gateway);
}

TEST(ConfigFlags, OfAnOlderVersionBuildNothingAtFirstUse) {
  EXPECT_TRUE(Config().first_use);
  auto running = config_of_flags({"--no-config", "--gateway"});
  ASSERT_TRUE(running.ok());
  EXPECT_FALSE(running->first_use);
  auto now = config_of_flags(config_flags(Config()));
  ASSERT_TRUE(now.ok());
  EXPECT_TRUE(now->first_use);
  EXPECT_THAT(settings_that_differ(*running, Config()), Contains("--no-first-use"));
}

// The supervisor gets the configuration as flags: they must give exactly the same again.
TEST(ConfigFlags, GiveTheSameConfiguration) {
  Config config;
  config.instance = "two";
  config.data_dir = "/srv/a b";
  config.run_dir = "/run/two";
  config.user = "someone";
  config.listen = {"127.0.0.1:1", "[::1]:2"};
  config.plain = Plain::kAnywhere;
  config.domain = "two.example";
  config.slot_first = 7;
  config.microvm_emulation = true;
  config.evict_paused = true;
  config.gateway = false;
  config.first_use = false;
  config.gateway_port = 7499;
  config.gateway_rules = "/etc/atoll/rules.json";
  config.slot_count = 9;
  config.patience = 4;
  config.ready_sandboxes = 0;
  config.default_isolation = "auto";

  Commands commands;
  MachineOptions options;
  Result<Config> again = make_error(Code::kInternal, "not run");
  CLI::App& app = commands.add(nullptr, "supervise", "", "", [&](const Globals& globals) {
    again = resolve_config(options, globals);
    return Result<int>(0);
  });
  add_machine_options(commands, app, options, Declare::kAll);
  std::vector<std::string> words{"supervise"};
  for (std::string& flag : config_flags(config)) words.push_back(std::move(flag));
  ASSERT_EQ(commands.run(words), 0);
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(again->instance, config.instance);
  EXPECT_EQ(again->data_dir, config.data_dir);
  EXPECT_EQ(again->run_dir, config.run_dir);
  EXPECT_EQ(again->user, config.user);
  EXPECT_EQ(again->listen, config.listen);
  EXPECT_EQ(again->plain, config.plain);
  EXPECT_EQ(again->domain, config.domain);
  EXPECT_EQ(again->slot_first, config.slot_first);
  EXPECT_EQ(again->default_isolation, config.default_isolation);
  EXPECT_EQ(again->patience, 4u);
  EXPECT_TRUE(again->microvm_emulation);
  EXPECT_TRUE(again->evict_paused);
  EXPECT_FALSE(again->gateway);
  EXPECT_FALSE(again->first_use);
  EXPECT_EQ(again->gateway_port, 7499u);
  EXPECT_EQ(again->gateway_rules, config.gateway_rules);
  EXPECT_EQ(again->slot_count, config.slot_count);
  EXPECT_EQ(again->ready_sandboxes, config.ready_sandboxes);
}

}  // namespace
}  // namespace atl::cli
