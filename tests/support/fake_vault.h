// SPDX-License-Identifier: Apache-2.0
//
// FakeVault: stands for the gateway, as control's vault link sees it.
#pragma once

#include "control/vault_link.h"
#include "http/server.h"
#include "net/tcp.h"

namespace atl::test {

using async::Task;

// Stands for the gateway: writes down what it is asked, and answers what it is told to.
class FakeVault {
 public:
  explicit FakeVault(async::asio::io_context& loop) : loop_(loop), scope_(loop.get_executor()) {}
  ~FakeVault() {
    scope_.cancel();
    async::asio::co_spawn(loop_, scope_.join(), async::asio::detached);
    loop_.restart();
    while (scope_.size() > 0) loop_.run_one();
  }
  control::VaultLink link() {
    return control::VaultLink([this] { return connect(); });
  }
  std::vector<std::string> asked;
  int status = 200;
  std::string answer = "{}";

 private:
  Task<Result<net::StreamPtr>> connect() {
    auto [mine, theirs] = net::stream_pair(loop_.get_executor());
    scope_.spawn("vault", serve(std::move(mine)));
    co_return std::move(theirs);
  }
  Task<> serve(net::StreamPtr stream) {
    http::Handler handler = [this](http::Exchange& exchange) { return handle(exchange); };
    http::ServerLimits limits;
    co_await http::serve_http1(std::move(stream), "", false, limits, handler);
  }
  Task<> handle(http::Exchange& exchange) {
    auto body = co_await exchange.read_all(1 << 20);
    asked.push_back(exchange.request().method + " " + exchange.request().target + " " +
                    std::move(body).value_or(""));
    http::ResponseHead head;
    head.status = status;
    std::string text = status == 204 ? std::string() : answer;
    if (!text.empty()) head.headers.add("content-type", "application/json");
    (void)co_await exchange.respond(std::move(head), std::move(text));
  }
  async::asio::io_context& loop_;
  async::Scope scope_;
};

}  // namespace atl::test
