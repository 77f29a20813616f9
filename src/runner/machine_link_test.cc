// SPDX-License-Identifier: Apache-2.0
//
// The runner's ends of a machine's sockets, with guests and QEMUs that mean harm in place of the real ones.
#include "runner/microvm/machine_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <thread>
#include <vector>

namespace atl::runner::microvm {
namespace {

class MachineLink : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-links-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    path_ = name;
    links_.emplace(path_);
    sockets_ = links_->listen("a").value();
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  std::string path_;
  std::optional<MachineLinks> links_;
  MachineSockets sockets_;
};

TEST_F(MachineLink, AQemuThatAcceptsNobodyIsNotWaitedFor) {
  std::vector<sys::Fd> waiting;
  Result<sys::Fd> next = links_->connect_monitor("a");
  for (; next.ok() && waiting.size() < 10; next = links_->connect_monitor("a"))
    waiting.push_back(std::move(*next));
  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.error().sys_errno(), EAGAIN);
}

}  // namespace
}  // namespace atl::runner::microvm
