// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/supervisor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "apps/cli/log_rotation.h"
#include "sys/files.h"
#include "sys/process.h"

namespace atl::cli {
namespace {

class InDirectory : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-cli-test-XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::string directory_;
};

TEST(RestartDelay, DoublesUpToItsBound) {
  EXPECT_EQ(restart_delay(1), Millis(100));
  EXPECT_EQ(restart_delay(2), Millis(200));
  EXPECT_EQ(restart_delay(4), Millis(800));
  EXPECT_EQ(restart_delay(100), Millis(10'000));
}

TEST(SupervisorState, SurvivesARoundTrip) {
  SupervisorState state;
  state.process = {12, 3456};
  state.listen = {"127.0.0.1:7400"};
  state.slot_first = 300;
  state.slot_count = 20;
  state.daemons.push_back({"runner", {7, 99}, 2, {1'700'000'000'000}});
  auto again = parse_state(state_json(state));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->process, state.process);
  EXPECT_EQ(again->listen, state.listen);
  EXPECT_EQ(again->slot_first, 300u);
  EXPECT_EQ(again->slot_count, 20u);
  ASSERT_EQ(again->daemons.size(), 1u);
  EXPECT_EQ(again->daemons[0].process, (ProcessId{7, 99}));
  EXPECT_EQ(again->daemons[0].restarts, 2u);
  EXPECT_EQ(again->daemons[0].since.ms, 1'700'000'000'000);
  EXPECT_FALSE(parse_state("[]").ok());
  EXPECT_FALSE(parse_state("{\"daemons\":").ok());
}

TEST(Process, AnOldStartTimeIsNotTheSameProcess) {
  ProcessId self{::getpid(), sys::start_ticks(::getpid()).value_or(0)};
  EXPECT_TRUE(is_running(self));
  EXPECT_FALSE(is_running({self.pid, self.start_ticks + 1}));
  EXPECT_FALSE(is_running({}));
}

using Rotation = InDirectory;

TEST_F(Rotation, KeepsTheNewestAndEmptiesTheLog) {
  ASSERT_TRUE(sys::replace_file(path("log"), std::string(100, 'a'), 0640).ok());
  ASSERT_TRUE(rotate_log(path("log"), 200).ok());
  EXPECT_FALSE(std::filesystem::exists(path("log.1")));
  for (char c : {'a', 'b', 'c', 'd', 'e'}) {
    ASSERT_TRUE(sys::replace_file(path("log"), std::string(100, c), 0640).ok());
    ASSERT_TRUE(rotate_log(path("log"), 50).ok());
  }
  EXPECT_EQ(std::filesystem::file_size(path("log")), 0u);
  EXPECT_EQ(sys::read_file(path("log.1"), 1000).value(), std::string(100, 'e'));
  EXPECT_EQ(sys::read_file(path("log.3"), 1000).value(), std::string(100, 'c'));
  EXPECT_FALSE(std::filesystem::exists(path("log.4")));
}

TEST_F(Rotation, TailGivesTheLastLines) {
  ASSERT_TRUE(sys::replace_file(path("log"), "one\ntwo\nthree\n", 0640).ok());
  EXPECT_EQ(tail_of(path("log"), 2), "two\nthree\n");
  EXPECT_EQ(tail_of(path("log"), 9), "one\ntwo\nthree\n");
  EXPECT_EQ(tail_of(path("none"), 2), "");
}

// Waits until the state file, which the supervisor replaces at each change, satisfies `done`; at most ten
// seconds.
template <class Done>
bool wait_for_state(const std::string& run_dir, Done done) {
  sys::Fd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  ::inotify_add_watch(watch.get(), run_dir.c_str(), IN_MOVED_TO);
  for (;;) {
    auto state = load_state(run_dir);
    if (state.ok() && done(*state)) return true;
    pollfd item{watch.get(), POLLIN, 0};
    if (::poll(&item, 1, 10'000) <= 0) return false;
    char events[4096];
    (void)!::read(watch.get(), events, sizeof events);
  }
}

using Supervising = InDirectory;

pid_t supervise_in_child(const SupervisorOptions& options) {
  pid_t child = ::fork();
  if (child == 0) ::_exit(supervise(options).ok() ? 0 : 1);
  return child;
}

ProcessId daemon_of(const std::string& run_dir) {
  auto state = load_state(run_dir);
  return state.ok() && !state->daemons.empty() ? state->daemons[0].process : ProcessId{};
}
pid_t daemon_pid(const std::string& run_dir) { return daemon_of(run_dir).pid; }

// A daemon that is killed comes back; one whose supervisor is killed stays, and the next supervisor takes it
// over.
TEST_F(Supervising, RestartsAdoptsAndStops) {
  SupervisorOptions options{
      directory_, {}, {{"sleeper", "/bin/sleep", {"1000"}, "", "", path("sleeper.log")}}};
  pid_t first = supervise_in_child(options);
  auto is_up = [](const SupervisorState& state) { return state.daemons[0].process.pid > 0; };
  ASSERT_TRUE(wait_for_state(directory_, is_up));
  pid_t killed = daemon_pid(directory_);
  ::kill(killed, SIGKILL);
  ASSERT_TRUE(wait_for_state(directory_, [&](const SupervisorState& state) {
    return is_up(state) && state.daemons[0].process.pid != killed;
  }));
  ProcessId running = daemon_of(directory_);
  EXPECT_EQ(load_state(directory_)->daemons[0].restarts, 1u);

  ::kill(first, SIGKILL);
  ::waitpid(first, nullptr, 0);
  EXPECT_TRUE(is_running(running));
  pid_t second = supervise_in_child(options);
  ASSERT_TRUE(
      wait_for_state(directory_, [&](const SupervisorState& state) { return state.process.pid == second; }));
  EXPECT_EQ(daemon_of(directory_), running);
  ::kill(second, kStopAll);
  int status = 0;
  ::waitpid(second, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(is_running(running));
  EXPECT_FALSE(load_state(directory_).ok());
}

// The folder is there only later, as it is when a daemon makes it.
TEST_F(Supervising, RunsAnErrandForAFileAndOneAtATime) {
  std::string folder = path("wanted"), runs = path("runs"), go = path("go");
  ASSERT_EQ(::mkfifo(go.c_str(), 0600), 0);
  SupervisorOptions options{
      directory_, {}, {{"sleeper", "/bin/sleep", {"1000"}, "", "", path("sleeper.log")}}};
  ErrandSpec errand{"builder", "/bin/sh", {}, path("builder.log"), folder, {"known"}};
  errand.arguments = {"-c", "echo ran >>" + runs + "; read line <" + go + "; rm -f " + folder + "/known"};
  options.errand = errand;
  pid_t first = supervise_in_child(options);
  auto errand_of = [](const SupervisorState& state) {
    return state.daemons.size() > 1 ? state.daemons[1].process : ProcessId{};
  };
  ASSERT_TRUE(wait_for_state(directory_,
                             [](const SupervisorState& state) { return state.daemons[0].process.pid > 0; }));
  std::filesystem::create_directory(folder);
  ASSERT_TRUE(sys::replace_file(folder + "/other", "", 0600).ok());
  ASSERT_TRUE(sys::replace_file(folder + "/known", "", 0600).ok());
  ASSERT_TRUE(
      wait_for_state(directory_, [&](const SupervisorState& state) { return errand_of(state).pid > 0; }));
  ProcessId running = errand_of(*load_state(directory_));

  // A supervisor that comes after a kill takes it over.
  ::kill(first, SIGKILL);
  ::waitpid(first, nullptr, 0);
  pid_t second = supervise_in_child(options);
  ASSERT_TRUE(
      wait_for_state(directory_, [&](const SupervisorState& state) { return state.process.pid == second; }));
  EXPECT_EQ(errand_of(*load_state(directory_)), running);
  sys::Fd gate(::open(go.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::write(gate.get(), "\n", 1), 1);
  ASSERT_TRUE(
      wait_for_state(directory_, [&](const SupervisorState& state) { return errand_of(state).pid == 0; }));
  EXPECT_EQ(sys::read_file(runs, 1000).value(), "ran\n");

  // One that runs ends with the supervisor.
  ASSERT_TRUE(sys::replace_file(folder + "/known", "", 0600).ok());
  ASSERT_TRUE(
      wait_for_state(directory_, [&](const SupervisorState& state) { return errand_of(state).pid > 0; }));
  running = errand_of(*load_state(directory_));
  ::kill(second, kStopAll);
  ::waitpid(second, nullptr, 0);
  EXPECT_FALSE(is_running(running));
}

TEST_F(Supervising, ASecondSupervisorIsRefused) {
  SupervisorOptions options{
      directory_, {}, {{"sleeper", "/bin/sleep", {"1000"}, "", "", path("sleeper.log")}}};
  pid_t first = supervise_in_child(options);
  ASSERT_TRUE(wait_for_state(directory_,
                             [](const SupervisorState& state) { return state.daemons[0].process.pid > 0; }));
  auto second = supervise(options);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), Code::kConflict);
  ::kill(first, kStopAll);
  ::waitpid(first, nullptr, 0);
}

}  // namespace
}  // namespace atl::cli
