// SPDX-License-Identifier: Apache-2.0
//
// The runner's ends of a machine's sockets, with guests and QEMUs that mean harm in place of the real ones.
#include "runner/microvm/machine_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <filesystem>
#include <optional>
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

// Answers of other orders as fast as it can, and at last the right one, until nobody is there.
void flood(int listener, Steady::time_point until) {
  sys::Fd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  model::MachineOrder order{};
  ASSERT_EQ(::recv(socket.get(), &order, sizeof order, MSG_WAITALL), static_cast<ssize_t>(sizeof order));
  model::MachineReply reply{};
  reply.magic = model::kMachineMagic;
  reply.number = order.number + 1;
  std::vector<model::MachineReply> foreign(1024, reply);
  std::size_t size = foreign.size() * sizeof reply;
  while (Steady::now() < until)
    if (::send(socket.get(), foreign.data(), size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) return;
  reply.number = order.number;
  ::send(socket.get(), &reply, sizeof reply, MSG_NOSIGNAL);
}

TEST_F(MachineLink, AGuestThatNeverStopsAnsweringIsNotWaitedFor) {
  constexpr Millis kBound{100};
  std::thread guest(flood, sockets_.channel.get(), Steady::now() + 10 * kBound);
  bool sent = false;
  Result<void> done = links_->order("a", model::MachineOrder{}, kBound, sent);
  links_->drop("a");
  guest.join();
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), Code::kDeadline);
  EXPECT_TRUE(sent) << "it may have been carried out";
}

TEST_F(MachineLink, AnOrderThatNobodyGotIsToldApart) {
  sockets_.channel.reset();
  bool sent = false;
  EXPECT_FALSE(links_->order("a", model::MachineOrder{}, Millis(100), sent).ok());
  EXPECT_FALSE(sent);
}

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
