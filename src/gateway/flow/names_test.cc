// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/names.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/random.h"

namespace atl::gateway {
namespace {

class NamesTest : public testing::Test {
 protected:
  ~NamesTest() override { std::filesystem::remove_all(folder); }
  void open() {
    names.reset();
    names = std::move(Names::open(folder + "/names.db", "a secret of 16 bytes or more").value());
  }
  async::Task<> keep(std::string tenant, std::string name, std::optional<IpAddress>& out) {
    auto got = co_await names->address_of(std::move(tenant), std::move(name), "sandbox");
    if (got) out = *got;
  }
  IpAddress address(const std::string& tenant, const std::string& name) {
    async::asio::io_context loop;
    std::optional<IpAddress> out;
    async::asio::co_spawn(loop, keep(tenant, name, out), async::asio::detached);
    loop.run();
    return out.value();
  }
  std::string folder = [] {
    auto path = std::filesystem::temp_directory_path() / ("atoll-names-" + random_hex(8));
    std::filesystem::create_directories(path);
    return path.string();
  }();
  std::unique_ptr<Names> names;
};

TEST_F(NamesTest, AnAddressStandsForOneNameOfOneTenant) {
  open();
  IpAddress a = address("t", "a.example"), b = address("t", "b.example");
  EXPECT_TRUE(is_synthetic(a) && is_synthetic(b));
  EXPECT_NE(a, b);
  EXPECT_EQ(address("t", "a.example"), a);
  EXPECT_EQ(names->name_of("t", a, "sandbox"), "a.example");
  EXPECT_EQ(names->name_of("other", a, "sandbox"), std::nullopt);
}

TEST_F(NamesTest, OutlivesARestart) {
  open();
  IpAddress a = address("t", "a.example");
  open();
  EXPECT_EQ(names->name_of("t", a, "sandbox"), "a.example");
  EXPECT_EQ(address("t", "a.example"), a);
}

}  // namespace
}  // namespace atl::gateway
