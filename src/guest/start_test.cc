// SPDX-License-Identifier: Apache-2.0
//
// The start command of a template: its file, and the sockets that it gets.
#include "guest/start.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/guest_test_util.h"

namespace atl::guest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(StartCommand, IsReadStrictly) {
  auto command = parse_start_command(
      R"({"command":"/bin/server","args":["a"],"user":"u","cwd":"/w","listen":[8080,49999]})");
  ASSERT_TRUE(command.ok());
  EXPECT_EQ(command->command, "/bin/server");
  EXPECT_THAT(command->arguments, ElementsAre("a"));
  EXPECT_THAT(command->ports, ElementsAre(8080, 49999));
  EXPECT_EQ(parse_start_command(R"({"command":"/s","listen":[80],"ready":"/r"})")->ready, "/r");
  for (const char* wrong :
       {"{}", R"({"command":"/s","ready":"/r"})", R"({"command":"/s","listen":[80],"ready":"r"})",
        R"({"command":"server"})", R"({"command":"/s","listen":[0]})", R"({"command":"/s","listen":[65536]})",
        R"({"command":"/s","listen":"80"})"})
    EXPECT_FALSE(parse_start_command(wrong).ok()) << wrong;
}

TEST(StartCommand, IsNoneWithoutItsFile) { EXPECT_FALSE(read_start_command("/no/such/file")); }

class StartTest : public GuestFixture {
 protected:
  ~StartTest() override { await(end()); }
  // On the loop: Scope::cancel() is for its thread while it runs.
  Task<> end() {
    starting_.cancel();
    co_await server_->guest().processes.shut_down();
    co_await starting_.join();
  }
  void start(StartCommand command) {
    startup_ = std::make_unique<Startup>(server_->guest(), std::move(command));
    ASSERT_TRUE(startup_->listen().ok());
    starting_.spawn("start", startup_->run());
    starting_.spawn("ready", startup_->wait_ready());
  }
  async::Scope starting_{loop_.get_executor()};
  std::unique_ptr<Startup> startup_;
};

TEST_F(StartTest, GetsItsSocketsAndIsNoWork) {
  std::uint16_t port = 0;
  {
    // A port that is free now; the command's socket is made right after.
    auto probe = net::listen_tcp(loop_.get_executor(), {"127.0.0.1", 0});
    ASSERT_TRUE(probe.ok());
    port = (*probe)->port();
  }
  StartCommand command;
  command.command = "/usr/bin/python3";
  command.arguments = {"-c",
                       "import os, socket; s = socket.socket(fileno=3); c = s.accept()[0]; "
                       "c.send(os.environ['LISTEN_FDS'].encode()); c.close(); import time; time.sleep(60)"};
  command.user = "root";
  command.ports = {port};
  start(std::move(command));
  auto stream = await(dial(port));
  ASSERT_TRUE(stream.ok()) << stream.error().message();
  char buffer[8];
  auto got = await((*stream)->read_some(buffer));
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(std::string(buffer, *got), "1");
  ASSERT_EQ(server_->guest().processes.alive().size(), 1u);
  EXPECT_TRUE(server_->guest().processes.alive().front()->config().service);
}

TEST_F(StartTest, IsStartedOnlyWhenItSaysSo) {
  auto probe = net::listen_tcp(loop_.get_executor(), {"127.0.0.1", 0});
  ASSERT_TRUE(probe.ok());
  StartCommand command;
  command.command = "/usr/bin/python3";
  // Refuses once, ends once, and then waits until it may answer.
  command.arguments = {
      "-c",
      "import os, socket, sys; s = socket.socket(fileno=3); c = s.accept()[0]; c.recv(4096)\n"
      "n = len(os.listdir(sys.argv[1])); open(sys.argv[1] + '/' + str(n), 'w')\n"
      "if n == 1: os._exit(1)\n"
      "if n > 1: open(sys.argv[2]).read()\n"
      "status = '204 x' if n > 1 else '503 x'\n"
      "c.send(('HTTP/1.1 ' + status + '\\r\\ncontent-length: 0\\r\\n\\r\\n').encode())",
      path("asked"), path("go")};
  command.user = "root";
  command.ports = {(*probe)->port()};
  command.ready = "/ready";
  ASSERT_EQ(::mkdir(path("asked").c_str(), 0755), 0);
  ASSERT_EQ(::mkfifo(path("go").c_str(), 0600), 0);
  probe = make_error(Code::kInternal, "closed");
  start(std::move(command));
  EXPECT_FALSE(server_->guest().started);
  EXPECT_TRUE(eventually([&] { return ::access(path("asked/2").c_str(), F_OK) == 0; }));
  EXPECT_FALSE(server_->guest().started);
  sys::Fd go;
  EXPECT_TRUE(eventually([&] {
    go = sys::Fd(::open(path("go").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    return static_cast<bool>(go);
  }));
  go.reset();
  EXPECT_TRUE(eventually([&] { return server_->guest().started; }));
}

TEST_F(StartTest, StartsAgainWhenItEnds) {
  StartCommand command;
  command.command = "/bin/sh";
  command.arguments = {"-c", "echo x >>" + path("runs")};
  command.user = "root";
  start(std::move(command));
  EXPECT_TRUE(eventually([&] { return read("runs").size() >= 4; })) << read("runs");
}

}  // namespace
}  // namespace atl::guest
