// SPDX-License-Identifier: Apache-2.0
//
// A guest daemon inside the test program, spoken to over loopback.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include <boost/json.hpp>

#include "base/bytes.h"
#include "guest/access.h"
#include "guest/gzip.h"
#include "guest/limits.h"
#include "guest/reaper.h"
#include "guest/server.h"
#include "guest/session.h"
#include "http/client.h"
#include "http/connect_rpc.h"

namespace atl::guest {

namespace fs = std::filesystem;
namespace json = boost::json;

// The internal token of the daemon under test.
inline constexpr char kInternal[] = "00112233";

// A connection to the daemon under test.
inline Task<Result<net::StreamPtr>> dial(std::uint16_t port) {
  net::Endpoint endpoint{"127.0.0.1", port};
  net::ConnectOptions options;
  co_return co_await net::connect_tcp(endpoint, options);
}

// One message of a stream.
inline std::string frame(std::string_view text) { return http::connect::envelope(text); }
// The Authorization value that names a user.
inline std::string basic(const std::string& user) { return "Basic " + base64_encode(user + ":"); }

// Runs the daemon on the test's own loop: it works while the test waits.
class GuestFixture : public ::testing::Test {
 protected:
  GuestFixture() {
    block_child_signals();
    ::umask(0);
    ::signal(SIGPIPE, SIG_IGN);
    char name[] = "/tmp/atoll-guest-test-XXXXXX";
    directory_ = ::mkdtemp(name);
    ::chmod(directory_.c_str(), 0777);
    serve(directory_ + "/batches");
  }

  // A daemon in place of an earlier one, as after a boot.
  void serve(const std::string& batch_directory) {
    Options options;
    options.boot.listen_fd = options.boot.memory_events_fd = options.boot.memory_usage_fd = -1;
    options.boot.memory_stat_fd = options.boot.cpu_usage_fd = -1;
    options.internal_token = kInternal;
    options.run_directory = directory_ + "/run";
    options.kept_file = directory_ + "/kept";
    options.batch_directory = batch_directory;
    options.subscriber_stall = std::chrono::milliseconds(200);
    server_ = std::make_unique<Server>(loop_.get_executor(), options);
    reaper_ = std::make_unique<Reaper>(loop_.get_executor(), server_->guest().processes);
    scope_ = std::make_unique<async::Scope>(loop_.get_executor());
    auto listener = net::listen_tcp(loop_.get_executor(), {"127.0.0.1", 0});
    EXPECT_TRUE(listener.ok());
    port_ = (*listener)->port();
    scope_->spawn("reaper", reaper_->run());
    scope_->spawn("server", server_->run(std::move(*listener)));
    client_ = http::make_client([port = port_] { return dial(port); });
    loop_.restart();  // it had run out of work, at the latest when the earlier daemon went
  }

  void end_server() {
    client_->close_idle();
    await(server_->shut_down());
    reaper_->stop();
    await(scope_->join());
    client_.reset();
    scope_.reset();
    reaper_.reset();
  }

  ~GuestFixture() override {
    end_server();
    fs::remove_all(directory_);
  }

  template <class T>
  T await(Task<T> task) {
    std::optional<T> result;
    await(store(std::move(task), result));
    return std::move(*result);
  }
  template <class T>
  static Task<> store(Task<T> task, std::optional<T>& result) {
    result.emplace(co_await std::move(task));
  }
  void await(Task<> task) {
    bool done = false;
    async::asio::co_spawn(loop_, std::move(task), [&](std::exception_ptr failure) {
      EXPECT_FALSE(failure);
      done = true;
    });
    while (!done) loop_.run_one();
  }

  // Lets the daemon work until `condition` holds. Gives up after ten seconds, which only a broken daemon
  // needs.
  template <class Condition>
  bool eventually(Condition condition) {
    auto limit = Steady::now() + std::chrono::seconds(10);
    while (!condition()) {
      if (Steady::now() > limit) return false;
      loop_.run_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  http::Answer call(const std::string& method, const std::string& target, http::Headers headers = {},
                    std::string body = {}) {
    http::RequestHead head;
    head.method = method;
    head.target = target;
    head.authority = "guest";
    head.headers = std::move(headers);
    head.has_body = !body.empty();
    if (head.has_body) head.content_length = body.size();
    auto answer = await(http::fetch(client_, std::move(head), std::move(body), 256 * kMiB));
    EXPECT_TRUE(answer.ok()) << answer.error().message();
    if (!answer.ok()) return {};
    return std::move(*answer);
  }

  http::Answer rpc(const std::string& target, const std::string& body, http::Headers headers = {}) {
    headers.add("content-type", "application/json");
    return call("POST", target, std::move(headers), body);
  }

  // The messages of a streaming call that ends by itself; the last one is the end-of-stream message.
  std::vector<json::object> stream(const std::string& target, const std::string& message,
                                   http::Headers headers = {}) {
    headers.add("content-type", "application/connect+json");
    return messages(call("POST", target, std::move(headers), frame(message)).body);
  }

  static std::vector<json::object> messages(const std::string& body) {
    http::connect::EnvelopeReader reader;
    reader.feed(body);
    std::vector<json::object> out;
    for (;;) {
      auto next = reader.next();
      if (!next.ok() || !*next) return out;
      out.push_back(json::parse((*next)->payload).as_object());
    }
  }

  static std::string text(const json::object& object, std::string_view key) {
    auto* value = object.if_contains({key.data(), key.size()});
    return value != nullptr && value->is_string() ? std::string(value->get_string().c_str()) : std::string();
  }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  void write(const std::string& name, const std::string& content) {
    std::ofstream(path(name), std::ios::binary) << content;
  }
  std::string read(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  async::asio::io_context loop_;
  std::string directory_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Reaper> reaper_;
  std::unique_ptr<async::Scope> scope_;
  std::shared_ptr<http::Client> client_;
  std::uint16_t port_ = 0;
};

// A streaming call that the test reads message by message.
class LiveStream {
 public:
  LiveStream(std::shared_ptr<http::Client> client, std::string target, std::string message,
             http::Headers headers = {})
      : client_(std::move(client)) {
    head_.method = "POST";
    head_.target = std::move(target);
    head_.authority = "guest";
    head_.headers = std::move(headers);
    head_.headers.add("content-type", "application/connect+json");
    body_ = frame(message);
    head_.content_length = body_.size();
    head_.has_body = true;
  }

  // The next message, or an empty object when the stream has ended.
  Task<json::object> next() {
    if (!exchange_ && !co_await open()) co_return json::object();
    for (;;) {
      auto envelope = reader_.next();
      if (!envelope.ok()) co_return json::object();
      if (*envelope) co_return json::parse((*envelope)->payload).as_object();
      std::string buffer(64 * kKiB, '\0');
      auto got = co_await exchange_->read_body(buffer);
      if (!got.ok() || *got == 0) co_return json::object();
      reader_.feed(std::string_view(buffer).substr(0, *got));
    }
  }
  void drop() {
    if (exchange_) exchange_->close();
    exchange_.reset();
  }

 private:
  Task<bool> open() {
    auto started = co_await client_->start(head_);
    if (!started.ok()) co_return false;
    exchange_ = std::move(*started);
    auto sent = co_await exchange_->write_body(body_);
    if (sent.ok()) sent = co_await exchange_->finish_body();
    if (!sent.ok()) co_return false;
    auto head = co_await exchange_->read_head();
    co_return head.ok();
  }

  std::shared_ptr<http::Client> client_;
  http::RequestHead head_;
  std::string body_;
  std::unique_ptr<http::ClientExchange> exchange_;
  http::connect::EnvelopeReader reader_;
};

}  // namespace atl::guest
