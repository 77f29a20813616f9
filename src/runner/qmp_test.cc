// SPDX-License-Identifier: Apache-2.0
//
// The real atoll-qmp before a monitor that says what a test wants.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "model/machine.h"
#include "sys/files.h"

namespace atl::runner_test {
namespace {

using testing::HasSubstr;

constexpr char kDone[] = R"({"return": {}})";
constexpr char kRefused[] =
    R"({"error": {"class": "GenericError", "desc": "Migration is not finalized yet"}})";

std::string migration(const char* word) { return fmt::format(R"({{"return": {{"status": "{}"}}}})", word); }

// What it says, a part of that, and what it hears.
using Talk = std::vector<std::pair<std::string, std::string>>;

class Qmp : public testing::Test {
 protected:
  void SetUp() override {
    int sockets[2], pipes[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    ASSERT_EQ(::pipe2(pipes, O_CLOEXEC), 0);
    monitor_ = sys::Fd(sockets[0]);
    theirs_ = sys::Fd(sockets[1]);
    answer_ = sys::Fd(pipes[0]);
    written_ = sys::Fd(pipes[1]);
  }
  void TearDown() override {
    if (program_ <= 0) return;
    ::kill(program_, SIGKILL);
    ::waitpid(program_, nullptr, 0);
  }
  // With `flags` for its process, and a signal after `alarm` microseconds.
  void run(const char* what, unsigned long flags = 0, suseconds_t alarm = 0) {
    sys::Fd file = std::move(sys::open_file("/dev/null", O_RDWR).value());
    program_ = static_cast<pid_t>(::syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, 0));
    ASSERT_GE(program_, 0) << errno;
    if (program_ == 0) {
      const int places[] = {theirs_.get(), file.get(), file.get(), written_.get()};
      for (int i = 0; i < 4; ++i) ::dup2(places[i], 100 + i);
      for (int i = 0; i < 4; ++i) ::dup2(100 + i, 3 + i);
      const itimerval timer{{0, 0}, {0, alarm}};
      ::setitimer(ITIMER_REAL, &timer, nullptr);
      ::execl(ATOLL_QMP_PROGRAM, "atoll-qmp", what, nullptr);
      ::_exit(127);
    }
    theirs_.reset();
    written_.reset();
  }
  // Nothing when it says what was not to be said.
  void talk(const Talk& talk) {
    say(R"({"QMP": {"version": {}, "capabilities": []}})");
    EXPECT_THAT(hear(), HasSubstr("qmp_capabilities"));
    say(kDone);
    for (const auto& [said, answer] : talk) {
      ASSERT_THAT(hear(), HasSubstr("\"" + said + "\""));
      say(answer);
    }
  }
  model::MonitorReply reply() {
    model::MonitorReply out{};
    EXPECT_TRUE(ready(answer_));
    EXPECT_EQ(::read(answer_.get(), &out, sizeof out), static_cast<ssize_t>(sizeof out));
    EXPECT_EQ(hear(), "");
    return out;
  }
  void say(const std::string& text) {
    std::string line = text + "\r\n";
    ::send(monitor_.get(), line.data(), line.size(), MSG_NOSIGNAL);
  }
  // Something to read, or an end; false after a minute.
  static bool ready(const sys::Fd& fd) {
    pollfd item{fd.get(), POLLIN, 0};
    return ::poll(&item, 1, 60'000) == 1;
  }
  // It says one thing and waits for the answer.
  std::string hear() {
    char text[4096];
    EXPECT_TRUE(ready(monitor_));
    ssize_t n = ::recv(monitor_.get(), text, sizeof text, 0);
    return {text, n < 0 ? 0 : static_cast<std::size_t>(n)};
  }

  sys::Fd monitor_, theirs_, answer_, written_;
  pid_t program_ = -1;
};

TEST_F(Qmp, AMachineThatOnlyStoodStillGoesOn) {
  run("cont");
  talk({{"migrate_cancel", kDone}, {"query-migrate", kDone}, {"cont", kDone}});
  EXPECT_EQ(reply().done, 1u);
}

// Or what is being written would stop it again at its end.
TEST_F(Qmp, AMachineGoesOnOnlyWhenNothingIsWrittenAnyMore) {
  run("cont");
  talk({{"migrate_cancel", kDone},
        {"query-migrate", migration("active")},
        {"query-migrate", migration("cancelling")},
        {"query-migrate", migration("completed")},
        {"cont", kRefused},
        {"query-migrate", migration("completed")},
        {"cont", kDone}});
  EXPECT_EQ(reply().done, 1u);
}

TEST_F(Qmp, ARefusalThatLastsIsTold) {
  run("cont");
  Talk refusals = {{"migrate_cancel", kDone}};
  for (int i = 0; i < 1'000; ++i) {
    refusals.emplace_back("query-migrate", migration("failed"));
    refusals.emplace_back("cont", kRefused);
  }
  talk(refusals);
  model::MonitorReply told = reply();
  EXPECT_EQ(told.done, 0u);
  EXPECT_THAT(told.why, HasSubstr("not finalized"));
}

TEST_F(Qmp, AMachineThatCouldNotBeWrittenGoesOn) {
  run("save");
  talk({{"stop", kDone},
        {"remove-fd", kRefused},
        {"add-fd", kDone},
        {"migrate", kDone},
        {"query-migrate", migration("active")},
        {"query-migrate", R"({"return": {"status": "failed", "error-desc": "no room"}})"},
        {"migrate_cancel", kDone},
        {"query-migrate", migration("failed")},
        {"cont", kRefused},
        {"query-migrate", migration("failed")},
        {"cont", kDone}});
  model::MonitorReply told = reply();
  EXPECT_EQ(told.done, 0u);
  EXPECT_THAT(told.why, HasSubstr("no room"));
}

// As it is started: PID 1, before a QEMU that says nothing.
TEST_F(Qmp, EndsByItsAlarm) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  run("cont", CLONE_NEWPID, 100'000);
  ASSERT_TRUE(ready(monitor_));
  int status = 0;
  EXPECT_EQ(::waitpid(program_, &status, 0), program_);
  program_ = -1;
  EXPECT_TRUE(WIFEXITED(status)) << status;
}

}  // namespace
}  // namespace atl::runner_test
