// SPDX-License-Identifier: Apache-2.0
//
// The interpreter over HTTP, with the shell's kernel and a guest daemon that is played here.
#include "guest/interpreter/server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "guest/interpreter/interpreter_test_util.h"
#include "guest/interpreter/run_directory.h"

namespace atl::guest::interpreter {
namespace {

using ::testing::HasSubstr;

TEST_F(InterpreterTest, RunsCodeThatKeepsItsVariables) {
  EXPECT_EQ(call("GET", "/health").body, "\"OK\"");
  EXPECT_EQ(print("x=4; echo $x"), "4\n");
  auto lines = run("echo $((x + 1)); echo why >&2; false");
  EXPECT_EQ(lines.front()["execution_count"], 2);
  EXPECT_EQ(text_of(lines, "stdout"), "5\n");
  EXPECT_EQ(text_of(lines, "stderr"), "why\n");
  EXPECT_EQ(text_of(lines, "error", "name"), "ExitStatus");
}

TEST_F(InterpreterTest, IsReadyWithoutADefaultContext) { EXPECT_EQ(call("GET", "/ready").head.status, 200); }

// Its first default context starts when it is told.
class ColdInterpreterTest : public InterpreterTest {
 protected:
  ColdInterpreterTest() : InterpreterTest(kInterruptLimit, "read <\"$HOME/go\"; exit 1\n") {}
};

TEST_F(ColdInterpreterTest, IsReadyWhenItsDefaultContextHasStartedOrFailed) {
  std::string go = directory_ + "/go";
  ASSERT_EQ(::mkfifo(go.c_str(), 0600), 0);
  std::optional<Result<http::Answer>> ready;
  auto head = request("GET", "/ready", 0, "");
  scope_.spawn("ready", store(http::fetch(client_, std::move(head), std::string(), kMiB), ready));
  EXPECT_EQ(print("echo shell"), "shell\n");
  EXPECT_FALSE(ready);
  sys::Fd gate(::open(go.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::write(gate.get(), "now\n", 4), 4);
  while (!ready) loop_.run_one();
  ASSERT_TRUE(ready->ok());
  EXPECT_EQ((*ready)->head.status, 200);
}

TEST_F(InterpreterTest, ContextsAreApart) {
  std::string id = make_context();
  run("x=1");
  EXPECT_EQ(print("echo \"[$x]\"", {{"context_id", id}}), "[]\n");
  EXPECT_THAT(call("GET", "/contexts").body, HasSubstr(id));
}

TEST_F(InterpreterTest, RestartLosesVariablesAndRemovalTheContext) {
  std::string id = make_context();
  run("x=1", {{"context_id", id}});
  EXPECT_EQ(call("POST", "/contexts/" + id + "/restart").body, "null");
  EXPECT_EQ(print("echo \"[$x]\"", {{"context_id", id}}), "[]\n");
  EXPECT_EQ(call("DELETE", "/contexts/" + id).body, "null");
  EXPECT_EQ(call("POST", "/execute", execute_body("1", {{"context_id", id}})).head.status, 404);
  EXPECT_EQ(call("DELETE", "/contexts/" + id).head.status, 404);
}

TEST_F(InterpreterTest, TakesTheEnvironmentOfTheSandboxAndOfTheCall) {
  EXPECT_EQ(print("echo $FROM_CREATE $E2B_SANDBOX_ID"), "it's i123\n");
  EXPECT_EQ(print("echo $FROM_CREATE $OWN", {{"env_vars", {{"OWN", "o"}, {"FROM_CREATE", "c"}}}}), "c o\n");
  EXPECT_EQ(print("echo $FROM_CREATE \"[$OWN]\""), "it's []\n");
  EXPECT_EQ(asked_, 1) << "the environment is asked for once";
}

TEST_F(InterpreterTest, RunsCodeOnlyForWhoTheGuestDaemonKnows) {
  EXPECT_EQ(call("POST", "/execute", execute_body("1"), "wrong").head.status, 401);
  run("true");
  EXPECT_EQ(call("POST", "/execute", execute_body("1"), "wrong").head.status, 401);
}

TEST_F(InterpreterTest, RefusesWhatIsWrongWithARequest) {
  EXPECT_EQ(call("POST", "/execute", "{").head.status, 400);
  EXPECT_EQ(call("POST", "/execute", R"({"language":"bash"})").head.status, 400);
  EXPECT_EQ(call("POST", "/execute", R"({"code":"1","language":"bash","context_id":"x"})").head.status, 400);
  EXPECT_EQ(call("POST", "/execute", R"({"code":"1","env_vars":{"a=b":""},"language":"bash"})").head.status,
            400);
  EXPECT_THAT(
      call("POST", "/execute", R"({"code":"1","env_vars":{"ATOLL_NETWORK":"none"},"language":"bash"})").body,
      HasSubstr("is for commands"));
  EXPECT_THAT(call("POST", "/execute", R"({"code":"1"})").body, HasSubstr("there are: bash"));
  EXPECT_EQ(call("POST", "/contexts", R"({"cwd":"relative","language":"bash"})").head.status, 400);
  EXPECT_EQ(call("POST", "/contexts", R"({"cwd":"/tmp\u0000/x","language":"bash"})").head.status, 400);
  EXPECT_EQ(call("GET", "/other").head.status, 404);
}

TEST_F(InterpreterTest, TellsThatAKernelDiedAndGoesOn) {
  auto lines = run("kill -9 $$");
  EXPECT_EQ(text_of(lines, "error", "name"), "KernelDied");
  EXPECT_THAT(text_of(lines, "error", "value"), HasSubstr("signal: killed"));
  EXPECT_EQ(print("echo on"), "on\n");
}

TEST_F(InterpreterTest, LosesNoLastWords) {
  auto lines = run("echo bye; exit 3");
  EXPECT_EQ(text_of(lines, "stdout"), "bye\n");
  EXPECT_THAT(text_of(lines, "error", "value"), HasSubstr("exit status 3"));
}

TEST_F(InterpreterTest, TellsOnceThatAKernelEndedBetweenCalls) {
  pid_t kernel = static_cast<pid_t>(std::stoi(print("echo $$")));
  ::kill(kernel, SIGKILL);
  while (processes_.find(kernel) && !processes_.find(kernel)->outcome()) loop_.run_one();
  EXPECT_EQ(text_of(run("echo lost"), "error", "name"), "KernelDied");
  EXPECT_EQ(print("echo on"), "on\n");
}

TEST_F(InterpreterTest, LosesNothingOfMuchOutput) {
  auto lines = run("for n in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/zero | tr '\\0' x; done");
  EXPECT_EQ(text_of(lines, "stdout").size(), 8'000'000u);
}

TEST_F(InterpreterTest, InterruptsCodeWhoseClientHasGone) {
  run("x=kept");
  begin("echo on; while true; do :; done", "on")->close();
  EXPECT_EQ(print("echo $x"), "kept\n");
}

TEST_F(InterpreterTest, AnInterruptAtAnyMomentEndsTheCodeAndOnlyTheCode) {
  std::string kernel = print("x=kept; echo $$");
  // Also what returns from one function only to call the next, and what waits for another program.
  for (const char* code :
       {"while true; do :; done", "f() { while true; do :; done; }; while true; do f; done",
        "sleep 1000; sleep 1000; sleep 1000", "( while true; do :; done )", "true"}) {
    for (int steps = 0; steps < 16; ++steps) leave_after(code, steps);
    EXPECT_EQ(print("echo $$"), kernel) << code;
  }
  EXPECT_EQ(print("echo $x"), "kept\n");
}

TEST_F(InterpreterTest, AnInterruptDuringTheStartOfAKernelIsNotForIt) {
  std::string go = directory_ + "/go", program = directory_ + "/kernels/bash_kernel.sh";
  ASSERT_EQ(::mkfifo(go.c_str(), 0600), 0);
  sys::Fd gate(::open(go.c_str(), O_RDWR | O_CLOEXEC));
  prepend(program, "read <" + go + "; : >>" + directory_ + "/started-$$\n");
  leave_after("while true; do :; done", 64);
  ASSERT_EQ(::write(gate.get(), "now\n", 4), 4);
  EXPECT_EQ(print("ls " + directory_ + " | grep -c started-"), "1\n");
}

// Does not wait for code that heeds no interrupt.
class HastyInterpreterTest : public InterpreterTest {
 protected:
  HastyInterpreterTest() : InterpreterTest(Steady::duration(0)) {}
};

TEST_F(HastyInterpreterTest, SaysThatAKernelWasKilledForCodeThatHeedsNoInterrupt) {
  run("x=lost");
  begin("trap '' INT; echo on; while true; do :; done", "on")->close();
  auto lines = run("echo $x");
  EXPECT_EQ(text_of(lines, "error", "name"), "KernelDied");
  EXPECT_THAT(text_of(lines, "error", "value"), HasSubstr("did not heed interrupts"));
  EXPECT_EQ(print("echo on"), "on\n");
}

// More than is held of one kernel.
constexpr std::size_t kFlood = kMaxHeld + 4 * kMiB;
const std::string kResult = R"({"result":{"text/plain":")" + std::string(4000, 'x') + "\"}}\n";
const std::string kDone = "{\"done\":true}\n";

std::ptrdiff_t results_in(const std::vector<json::object>& lines) {
  return std::count_if(lines.begin(), lines.end(),
                       [](const json::object& line) { return line.at("type") == "result"; });
}

TEST_F(InterpreterTest, DropsEventsThatNoCallIsThereFor) {
  run("x=kept");
  EXPECT_GE(write_events(kResult, kFlood), kFlood);
  auto lines = run("echo $x");
  EXPECT_EQ(text_of(lines, "stdout"), "kept\n");
  EXPECT_EQ(results_in(lines), 0);
}

TEST_F(InterpreterTest, AKernelThatSaidMuchBetweenCallsCanEndAndBeEnded) {
  pid_t kernel = static_cast<pid_t>(std::stoi(print("echo $$")));
  EXPECT_GE(write_events(kResult, kFlood), kFlood);
  ::kill(kernel, SIGKILL);
  while (processes_.find(kernel) && !processes_.find(kernel)->outcome()) loop_.run_one();
  EXPECT_EQ(text_of(run("echo lost"), "error", "name"), "KernelDied");
  EXPECT_EQ(print("echo on"), "on\n");
  EXPECT_GE(write_events(kResult, kFlood), kFlood);
  auto contexts = json::parse(call("GET", "/contexts").body).as_array();
  ASSERT_EQ(contexts.size(), 1u);
  std::string id(contexts[0].at("id").as_string());
  EXPECT_EQ(call("POST", "/contexts/" + id + "/restart").body, "null");
  EXPECT_GE(write_events(kResult, kFlood), kFlood);
  EXPECT_EQ(call("DELETE", "/contexts/" + id).body, "null");
}

TEST_F(InterpreterTest, GoesOnAfterACallThatLeftMuchUntaken) {
  std::string go = directory_ + "/go";
  ASSERT_EQ(::mkfifo(go.c_str(), 0600), 0);
  auto exchange = begin("echo on; read <" + go, "on");
  // More than sockets take of an answer that nobody reads, then the end of the call, and much behind it.
  constexpr std::size_t kUnread = 12 * kMiB;
  ASSERT_GE(write_events(kResult, kUnread), kUnread);
  write_events(kDone, 1);
  EXPECT_LT(write_events(kResult, kFlood), kFlood) << "the client is waited for";
  auto rest = await(exchange->read_all(64 * kMiB));
  ASSERT_TRUE(rest.ok()) << rest.error().message();
  EXPECT_GE(write_events(kResult, kFlood), kFlood);
  // The next call gets none of it. The kernel is not there to say that it is done.
  std::optional<Result<http::Answer>> next;
  post("/execute", execute_body("true"), next);
  settle();
  write_events(kDone, 1);
  while (!next) loop_.run_one();
  ASSERT_TRUE(next->ok()) << next->error().message();
  EXPECT_EQ(results_in(lines_of((*next)->body)), 0);
}

TEST_F(InterpreterTest, TellsCodeThatRunsOfTheEndOfTheInterpreter) {
  auto exchange = begin("echo on; while true; do :; done", "on");
  await(server_->shut_down());
  auto rest = await(exchange->read_all(kMiB));
  ASSERT_TRUE(rest.ok()) << rest.error().message();
  EXPECT_EQ(text_of(lines_of(*rest), "error", "name"), "ContextRemoved");
}

// --- ends, and lives after them

class ImpatientTest : public InterpreterTest {
 protected:
  ImpatientTest()
      : InterpreterTest(kInterruptLimit, nullptr,
                        [](Options& options) { options.client_last_words = Steady::duration::zero(); }) {}
};

TEST_F(ImpatientTest, AClientThatReadsNothingDoesNotHoldTheEnd) {
  auto exchange = begin("echo on; while true; do head -c 1000000 /dev/zero | tr '\\0' x; done", "on");
  settle();
  await(server_->shut_down());
  auto rest = await(exchange->read_all(64 * kMiB));
  EXPECT_FALSE(rest.ok()) << "it was broken off";
}

class ForgetfulTest : public InterpreterTest {
 protected:
  ForgetfulTest()
      : InterpreterTest(kInterruptLimit, nullptr, [](Options& options) { options.forgotten = {"bash"}; }) {}
};

TEST_F(ForgetfulTest, TellsOnceThatAnEarlierLifeHadVariables) {
  auto lines = run("echo ran");
  EXPECT_EQ(text_of(lines, "error", "name"), "KernelDied");
  EXPECT_EQ(text_of(lines, "stdout"), "");
  EXPECT_EQ(print("echo on"), "on\n");
}

TEST_F(InterpreterTest, AnEarlierLifeLeavesNothingButTheWordThatItWas) {
  run("x=1");
  std::string id = make_context();
  run("y=1", {{"context_id", id}});
  std::string earlier = directory_ + "/.atoll-interpreter-earlier";
  fs::create_directory(earlier);
  for (const auto& entry : fs::directory_iterator(directory_)) {
    if (entry.path().filename().string().starts_with("used-"))
      fs::copy(entry.path(), earlier + "/" + entry.path().filename().string());
  }
  pid_t kernel = ::fork();
  if (kernel == 0) {
    ::execl("/bin/sh", "sh", "-c", "kill -STOP $$", "kernel", (earlier + "/k.commands").c_str(), nullptr);
    ::_exit(127);
  }
  auto arguments = [&] {
    std::ifstream in(fmt::format("/proc/{}/cmdline", kernel));
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  while (arguments().find("k.commands") == std::string::npos) {}
  EXPECT_EQ(sweep_earlier_lives(directory_), std::set<std::string>{"bash"});
  int status = 0;
  EXPECT_EQ(::waitpid(kernel, &status, 0), kernel);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_FALSE(fs::exists(earlier));
  EXPECT_TRUE(sweep_earlier_lives(directory_).empty());
}

TEST_F(InterpreterTest, ACopyOfASandboxHasItsOwnNameAndRandomNumbers) {
  std::string once = print("RANDOM=1; echo $RANDOM $RANDOM $RANDOM; RANDOM=1");
  EXPECT_EQ(print("echo $RANDOM $RANDOM $RANDOM; RANDOM=1"), once);
  name_sandbox("i456");
  EXPECT_NE(print("echo $RANDOM $RANDOM $RANDOM"), once);
  EXPECT_EQ(print("echo $E2B_SANDBOX_ID"), "i456\n");
}

TEST_F(InterpreterTest, AContextThatStillStartsCanBeRemoved) {
  std::string program = directory_ + "/kernels/bash_kernel.sh", go = directory_ + "/go";
  ASSERT_EQ(::mkfifo(go.c_str(), 0600), 0);
  sys::Fd gate(::open(go.c_str(), O_RDWR | O_CLOEXEC));
  std::ofstream(program) << "read <" << go << "\n";
  std::optional<Result<http::Answer>> made;
  post("/contexts", R"({"language":"bash"})", made);
  settle();
  auto contexts = json::parse(call("GET", "/contexts").body).as_array();
  ASSERT_EQ(contexts.size(), 1u);
  EXPECT_EQ(call("DELETE", "/contexts/" + std::string(contexts[0].at("id").as_string())).body, "null");
  while (!made) loop_.run_one();
  ASSERT_TRUE(made->ok());
  EXPECT_EQ((*made)->head.status, 503);
}

TEST_F(InterpreterTest, AContextThatDoesNotStartIsClosedForThoseWhoWaitInIt) {
  run("true");  // so that the next call is authorized without a question
  std::string program = directory_ + "/kernels/bash_kernel.sh", go = directory_ + "/go";
  ASSERT_EQ(::mkfifo(go.c_str(), 0600), 0);
  sys::Fd gate(::open(go.c_str(), O_RDWR | O_CLOEXEC));
  // The next kernel waits and then fails; those after it are as ever.
  prepend(program, "if mkdir " + directory_ + "/first 2>/dev/null; then read <" + go + "; exit 1; fi\n");
  std::optional<Result<http::Answer>> made, ran;
  post("/contexts", R"({"language":"bash"})", made);
  settle();
  auto contexts = json::parse(call("GET", "/contexts").body).as_array();
  ASSERT_EQ(contexts.size(), 2u);
  post("/execute", execute_body("echo ran", {{"context_id", contexts[1].at("id")}}), ran);
  settle();
  ASSERT_EQ(::write(gate.get(), "now\n", 4), 4);
  while (!made || !ran) loop_.run_one();
  ASSERT_TRUE(made->ok() && ran->ok());
  EXPECT_EQ((*made)->head.status, 503);
  EXPECT_EQ(text_of(lines_of((*ran)->body), "error", "name"), "ContextRemoved");
}

}  // namespace
}  // namespace atl::guest::interpreter
