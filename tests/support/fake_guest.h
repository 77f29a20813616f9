// SPDX-License-Identifier: Apache-2.0
//
// FakeGuests: guest daemons of all sandboxes in this process, over real HTTP on stream pairs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "async/scope.h"
#include "base/bytes.h"
#include "control/guest_client.h"
#include "http/server.h"
#include "net/tcp.h"

namespace atl::test {

using async::Task;

class FakeGuests {
 public:
  explicit FakeGuests(async::Executor executor)
      : executor_(executor), scope_(executor), released_(executor) {}

  control::GuestNetwork network() {
    return [this](const model::SandboxRow& row) -> http::Connector {
      return [this, id = row.id] { return connect(id); };
    };
  }
  Task<> stop() {
    hold_init = hold_started = hold_activity = false;
    released_.notify_all();
    scope_.cancel();
    co_await scope_.join();
  }
  void release() {
    hold_init = hold_started = hold_activity = false;
    released_.notify_all();
  }

  int init_status = 204;
  bool hold_init = false;
  bool hold_started = false;  // the start command is not ready until release()
  int started_status = 204;
  std::size_t asked_started = 0;
  bool unreachable = false;
  std::map<std::string, std::vector<std::string>> inits;   // bodies by sandbox
  std::map<std::string, std::vector<std::string>> tokens;  // that came with them
  int freeze_status = 204;
  std::string outside = R"({"outside":0})";  // where a freeze asks for it
  std::map<std::string, std::vector<std::string>> freezes;
  int activity_status = 200;
  bool hold_activity = false;                   // the question is not answered until release()
  std::string hold_for;                         // only of this sandbox, when it is not empty
  std::map<std::string, std::string> activity;  // answers by sandbox; else: nothing runs
  std::size_t asked = 0;                        // for that
  std::size_t waiting = 0;

 private:
  Task<Result<net::StreamPtr>> connect(std::string id) {
    if (unreachable) co_return make_error(Code::kUnavailable, "connection refused");
    auto [mine, theirs] = net::stream_pair(executor_);
    scope_.spawn("fake guest", serve(std::move(mine), id));
    co_return std::move(theirs);
  }

  Task<> serve(net::StreamPtr stream, std::string id) {
    http::ServerLimits limits;
    http::Handler handler = [this, id](http::Exchange& exchange) { return answer(exchange, id); };
    co_await http::serve_http1(std::move(stream), std::string(), false, limits, handler);
  }

  Task<> answer(http::Exchange& exchange, std::string id) {
    auto body = co_await exchange.read_all(1 << 20);
    http::ResponseHead head;
    head.status = 204;
    if (exchange.request().path() == "/init") {
      ++waiting;
      while (hold_init) co_await released_.wait();
      --waiting;
      if (body) inits[id].push_back(*body);
      tokens[id].push_back(std::string(exchange.request().headers.find("x-atoll-internal").value_or("")));
      head.status = init_status;
    }
    if (exchange.request().path() == "/started") {
      ++asked_started;
      while (hold_started) co_await released_.wait();
      head.status = started_status;
    }
    if (exchange.request().path() == "/freeze") {
      if (body) freezes[id].push_back(*body);
      head.status = freeze_status;
    }
    std::string answer;
    if (exchange.request().path() == "/freeze" && body &&
        body->find("\"outside\":true") != std::string::npos && freeze_status == 204) {
      head.status = 200;
      answer = outside;
    }
    if (exchange.request().path() == "/activity") {
      ++asked;
      ++waiting;
      while (hold_activity && (hold_for.empty() || hold_for == id)) co_await released_.wait();
      --waiting;
      head.status = activity_status;
      auto told = activity.find(id);
      answer = told == activity.end() ? R"({"processes":0,"quietMs":86400000})" : told->second;
    }
    (void)co_await exchange.respond(std::move(head), std::move(answer));
  }

  async::Executor executor_;
  async::Scope scope_;
  async::Event released_;
};

}  // namespace atl::test
