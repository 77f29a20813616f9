// SPDX-License-Identifier: Apache-2.0
//
// What tests of the interpreter share: it serves HTTP inside the test program, with the shell's kernel and a
// guest daemon that is played here.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include <boost/json.hpp>

#include "guest/interpreter/kernels.h"
#include "guest/interpreter/limits.h"
#include "guest/interpreter/server.h"
#include "guest/reaper.h"
#include "guest/rpc.h"

namespace atl::guest::interpreter {

namespace json = boost::json;
namespace fs = std::filesystem;

inline Task<Result<net::StreamPtr>> dial_port(std::uint16_t port) {
  net::Endpoint endpoint{"127.0.0.1", port};
  net::ConnectOptions options;
  co_return co_await net::connect_tcp(endpoint, options);
}

// Runs on the test's own loop: it works while the test waits.
class InterpreterTest : public ::testing::Test {
 protected:
  // `change`: what a test needs otherwise.
  explicit InterpreterTest(
      Steady::duration interrupt_limit = kInterruptLimit, const char* python = nullptr,
      const std::function<void(Options&)>& change = [](Options&) {}) {
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
    options.environment = {{"PATH", "/usr/bin:/bin"}, {"HOME", directory_}};
    options.guest_daemon = {"127.0.0.1", (*guest)->port()};
    options.identity_directory = directory_;
    options.interrupt_limit = interrupt_limit;
    name_sandbox("i123");
    change(options);
    // Only the shell is "installed".
    fs::create_directories(directory_ + "/bin");
    fs::create_symlink("/bin/bash", directory_ + "/bin/bash");
    if (python != nullptr) install_python(python);
    port_ = (*listener)->port();
    server_ = std::make_unique<Server>(loop_.get_executor(), processes_, options);
    scope_.spawn("reaper", reaper_.run());
    scope_.spawn("guest daemon", play_guest_daemon(std::move(*guest)));
    scope_.spawn("server", server_->run(std::move(*listener)));
    client_ = http::make_client([port = port_] { return dial_port(port); });
  }

  void name_sandbox(const std::string& id) { std::ofstream(directory_ + "/.E2B_SANDBOX_ID") << id; }

  ~InterpreterTest() override {
    client_->close_idle();
    await(server_->shut_down());
    await(processes_.shut_down());
    guest_listener_->close();
    reaper_.stop();
    await(scope_.join());
    fs::remove_all(directory_);
  }

  // A shell script in place of Python: the language of the first default context.
  void install_python(const std::string& script) {
    std::string path = directory_ + "/usr/bin/python3";
    fs::create_directories(directory_ + "/usr/bin");
    std::ofstream(path) << "#!/bin/bash\n" << script;
    EXPECT_EQ(::chmod(path.c_str(), 0755), 0);
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
  // Sends code and waits until it has printed `word`.
  std::unique_ptr<http::ClientExchange> begin(const std::string& code, const std::string& word) {
    std::string body = execute_body(code);
    auto exchange = await(client_->start(request("POST", "/execute", body.size(), "right")));
    EXPECT_TRUE(exchange.ok());
    EXPECT_TRUE(await((*exchange)->write_body(body)).ok());
    EXPECT_TRUE(await((*exchange)->read_head()).ok());
    std::string seen, buffer(4096, '\0');
    while (seen.find(word) == std::string::npos) {
      auto got = await((*exchange)->read_body(buffer));
      EXPECT_TRUE(got.ok() && *got > 0);
      if (!got.ok() || *got == 0) break;
      seen.append(buffer, 0, *got);
    }
    return std::move(*exchange);
  }
  // Sends code and leaves a moment later: another one for each number of `steps`.
  void leave_after(const std::string& code, int steps) {
    std::string body = execute_body(code);
    auto exchange = await(client_->start(request("POST", "/execute", body.size(), "right")));
    ASSERT_TRUE(exchange.ok());
    ASSERT_TRUE(await((*exchange)->write_body(body)).ok());
    for (int step = 0; step < steps; ++step) loop_.run_one_for(std::chrono::milliseconds(2));
    (*exchange)->close();
  }
  static void prepend(const std::string& file, const std::string& text) {
    std::ifstream old(file);
    std::string rest((std::istreambuf_iterator<char>(old)), std::istreambuf_iterator<char>());
    std::ofstream(file + ".new") << text << rest;
    fs::rename(file + ".new", file);
  }
  // Writes `line` in the name of the only kernel, again and again until it is `bytes`. Gives how many were
  // written before nobody read any more.
  std::size_t write_events(const std::string& line, std::size_t bytes) {
    std::string path;
    for (const auto& entry : fs::directory_iterator(directory_))
      path = entry.path().extension() == ".events" ? entry.path().string() : path;
    sys::Fd pipe(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    EXPECT_TRUE(static_cast<bool>(pipe));
    EXPECT_LE(line.size(), static_cast<std::size_t>(PIPE_BUF)) << "it is to be written whole or not at all";
    std::size_t sent = 0;
    for (bool waited = false; sent < bytes;) {
      if (::write(pipe.get(), line.data(), line.size()) > 0) {
        sent += line.size();
        waited = false;
      } else if (!std::exchange(waited, true)) {
        settle();
      } else {
        break;
      }
    }
    return sent;
  }
  // A request beside others; its answer comes while the loop runs.
  void post(const std::string& target, std::string body, std::optional<Result<http::Answer>>& answer) {
    auto head = request("POST", target, body.size(), "right");
    scope_.spawn(target, store(http::fetch(client_, std::move(head), std::move(body), kMiB), answer));
  }
  // Until nothing more happens by itself.
  void settle() {
    while (loop_.poll() > 0) {}
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

}  // namespace atl::guest::interpreter
