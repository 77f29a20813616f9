// SPDX-License-Identifier: Apache-2.0
//
// The interpreter over HTTP, with the shell's kernel and a guest daemon that is played here.
#include "guest/interpreter/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <boost/json.hpp>

#include "guest/interpreter/kernels.h"
#include "guest/reaper.h"
#include "guest/rpc.h"

namespace atl::guest::interpreter {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;
using ::testing::HasSubstr;

Task<Result<net::StreamPtr>> dial(std::uint16_t port) {
  net::Endpoint endpoint{"127.0.0.1", port};
  net::ConnectOptions options;
  co_return co_await net::connect_tcp(endpoint, options);
}

class InterpreterTest : public ::testing::Test {
 protected:
  InterpreterTest() {
    block_child_signals();
    ::signal(SIGPIPE, SIG_IGN);
    char name[] = "/tmp/atoll-interpreter-test-XXXXXX";
    directory_ = ::mkdtemp(name);
    EXPECT_TRUE(unpack_kernels(directory_ + "/kernels").ok());
    auto guest = net::listen_tcp(loop_.get_executor(), {"127.0.0.1", 0});
    auto listener = net::listen_tcp(loop_.get_executor(), {"127.0.0.1", 0});
    EXPECT_TRUE(guest.ok() && listener.ok());
    guest_listener_ = guest->get();
    Options options;
    options.places.ours = directory_ + "/kernels";
    options.places.root = directory_;
    options.home = directory_;
    options.run_directory = directory_;
    options.environment = {{"PATH", "/usr/bin:/bin"}};
    options.guest_daemon = {"127.0.0.1", (*guest)->port()};
    options.identity_directory = directory_;
    std::ofstream(directory_ + "/.E2B_SANDBOX_ID") << "i123";
    // Only the shell is "installed".
    fs::create_directories(directory_ + "/bin");
    fs::create_symlink("/bin/bash", directory_ + "/bin/bash");
    port_ = (*listener)->port();
    server_ = std::make_unique<Server>(loop_.get_executor(), processes_, options);
    scope_.spawn("reaper", reaper_.run());
    scope_.spawn("guest daemon", play_guest_daemon(std::move(*guest)));
    scope_.spawn("server", server_->run(std::move(*listener)));
    client_ = http::make_client([port = port_] { return dial(port); });
  }

  ~InterpreterTest() override {
    client_->close_idle();
    await(server_->shut_down());
    await(processes_.shut_down());
    guest_listener_->close();
    reaper_.stop();
    await(scope_.join());
    fs::remove_all(directory_);
  }

  // Answers /envs, and knows one token.
  Task<> play_guest_daemon(std::unique_ptr<net::Listener> listener) {
    http::ServerLimits limits;
    http::Handler handler = [this](Exchange& exchange) { return answer_envs(exchange); };
    for (;;) {
      auto stream = co_await listener->accept();
      if (!stream.ok()) co_return;
      co_await http::serve_http1(std::move(*stream), std::string(), false, limits, handler);
    }
  }
  Task<> answer_envs(Exchange& exchange) {
    ++asked_;
    bool known =
        exchange.request().headers.find("x-access-token") == std::optional<std::string_view>("right");
    int status = known ? 200 : 401;
    std::string body = known ? R"({"FROM_CREATE":"it's"})" : "{}";
    co_await respond_json(exchange, status, body);
  }

  void await(Task<> task) {
    bool done = false;
    async::asio::co_spawn(loop_, std::move(task), [&](std::exception_ptr failure) {
      EXPECT_FALSE(failure);
      done = true;
    });
    while (!done) loop_.run_one();
  }
  template <class T>
  static Task<> store(Task<T> task, std::optional<T>& result) {
    result.emplace(co_await std::move(task));
  }
  template <class T>
  T await(Task<T> task) {
    std::optional<T> result;
    await(store(std::move(task), result));
    return std::move(*result);
  }

  static http::RequestHead request(const std::string& method, const std::string& target, std::size_t body,
                                   const std::string& token) {
    http::RequestHead head;
    head.method = method;
    head.target = target;
    head.authority = "sandbox";
    head.headers.add("x-access-token", token);
    head.has_body = body > 0;
    if (body > 0) head.content_length = body;
    return head;
  }
  http::Answer call(const std::string& method, const std::string& target, std::string body = {},
                    const std::string& token = "right") {
    auto head = request(method, target, body.size(), token);
    auto answer = await(http::fetch(client_, std::move(head), std::move(body), 64 * kMiB));
    EXPECT_TRUE(answer.ok()) << answer.error().message();
    return answer.ok() ? std::move(*answer) : http::Answer();
  }

  static std::string execute_body(const std::string& code, json::object more = {}) {
    more["code"] = code;
    if (!more.contains("context_id")) more["language"] = "bash";
    return json::serialize(more);
  }
  static std::vector<json::object> lines_of(const std::string& body) {
    std::vector<json::object> out;
    for (std::size_t at = 0, end; (end = body.find('\n', at)) != std::string::npos; at = end + 1)
      out.push_back(json::parse(std::string_view(body).substr(at, end - at)).as_object());
    EXPECT_TRUE(!out.empty() && out.back()["type"] == "end_of_execution") << body;
    return out;
  }
  std::vector<json::object> run(const std::string& code, json::object more = {}) {
    return lines_of(call("POST", "/execute", execute_body(code, std::move(more))).body);
  }
  static std::string text_of(const std::vector<json::object>& lines, std::string_view type,
                             std::string_view field = "text") {
    std::string out;
    for (const json::object& line : lines) {
      if (line.at("type").as_string() == json::string_view(type.data(), type.size()))
        out += std::string(line.at({field.data(), field.size()}).as_string());
    }
    return out;
  }
  std::string print(const std::string& code, json::object more = {}) {
    return text_of(run(code, std::move(more)), "stdout");
  }
  std::string make_context() {
    auto answer = call("POST", "/contexts", R"({"language":"bash"})");
    return std::string(json::parse(answer.body).at("id").as_string());
  }

  async::asio::io_context loop_;
  std::string directory_;
  Workers workers_{2};
  ProcessTable processes_{loop_.get_executor(), workers_, OomCounter(), std::chrono::hours(1)};
  Reaper reaper_{loop_.get_executor(), processes_};
  async::Scope scope_{loop_.get_executor()};
  std::unique_ptr<Server> server_;
  net::Listener* guest_listener_ = nullptr;
  std::shared_ptr<http::Client> client_;
  std::uint16_t port_ = 0;
  int asked_ = 0;
};

TEST_F(InterpreterTest, RunsCodeThatKeepsItsVariables) {
  EXPECT_EQ(call("GET", "/health").body, "\"OK\"");
  EXPECT_EQ(print("x=4; echo $x"), "4\n");
  auto lines = run("echo $((x + 1)); echo why >&2; false");
  EXPECT_EQ(lines.front()["execution_count"], 2);
  EXPECT_EQ(text_of(lines, "stdout"), "5\n");
  EXPECT_EQ(text_of(lines, "stderr"), "why\n");
  EXPECT_EQ(text_of(lines, "error", "name"), "ExitStatus");
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
  EXPECT_THAT(call("POST", "/execute", R"({"code":"1"})").body, HasSubstr("there are: bash"));
  EXPECT_EQ(call("POST", "/contexts", R"({"cwd":"relative","language":"bash"})").head.status, 400);
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
  std::string body = execute_body("echo on; while true; do :; done");
  auto exchange = await(client_->start(request("POST", "/execute", body.size(), "right")));
  ASSERT_TRUE(exchange.ok());
  ASSERT_TRUE(await((*exchange)->write_body(body)).ok());
  ASSERT_TRUE(await((*exchange)->read_head()).ok());
  std::string seen, buffer(4096, '\0');
  while (seen.find("on") == std::string::npos) {
    auto got = await((*exchange)->read_body(buffer));
    ASSERT_TRUE(got.ok() && *got > 0);
    seen.append(buffer, 0, *got);
  }
  (*exchange)->close();
  EXPECT_EQ(print("echo $x"), "kept\n");
}

}  // namespace
}  // namespace atl::guest::interpreter
