// SPDX-License-Identifier: Apache-2.0
//
// A small world for tests: names that a test invents, servers on this machine's loopback, a DNS server.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "gateway/upstream/upstream.h"
#include "http/h2/server.h"
#include "net/datagram.h"
#include "net/tcp.h"
#include "net/tls/tls.h"

namespace atl::gateway::testing {

namespace asio = async::asio;

inline Authority authority(const std::string& text) { return *parse_authority(text, 443); }

// Knows the names of a map; counts the questions.
struct FakeResolver final : Resolver {
  std::map<std::string, std::vector<IpAddress>> names;
  int asked = 0;
  Task<Result<std::vector<IpAddress>>> resolve(std::string name, std::string) override {
    ++asked;
    auto found = names.find(name);
    if (found == names.end())
      co_return make_error(Code::kNotFound, "no {}", name).with_word("name_not_found");
    co_return found->second;
  }
};

inline IpAddress ip(const char* text) { return *parse_ip(text); }

inline Result<void> anything(const IpAddress&) { return success(); }

// The tests' servers are on the loopback, which stands for the world here.
inline Result<void> loopback_only(const IpAddress& address) {
  if (address == ip("127.0.0.1")) return success();
  return make_error(Code::kDenied, "{} is not the loopback", address.text()).with_word("address_denied");
}

inline const net::TlsIdentity& test_authority() {
  static const net::TlsIdentity kMade = *net::make_certificate_authority("Atoll test authority");
  return kMade;
}

// A server for `name` and its subdomains on a port of 127.0.0.1, plain or with TLS and HTTP/2.
class TestServer {
 public:
  enum class Kind : std::uint8_t { kPlain, kTls, kTlsHttp1Only };

  TestServer(async::Scope& scope, async::Executor executor, Kind kind, http::Handler handler,
             std::string name = "api.example")
      : scope_(scope), kind_(kind), handler_(std::move(handler)) {
    listener_ = std::move(*net::listen_tcp(executor, {"127.0.0.1", 0}));
    port = listener_->port();
    if (kind != Kind::kPlain)
      tls_ = *net::make_tls_server(*net::make_server_identity(test_authority(), {name, "*." + name}));
    scope_.spawn("listen", listen());
  }
  void close() { listener_->close(); }

  std::uint16_t port = 0;
  int connections = 0;
  http::ServerLimits limits;

 private:
  Task<> listen() {
    for (;;) {
      auto stream = co_await listener_->accept();
      if (!stream.ok()) co_return;
      ++connections;
      scope_.spawn("serve", serve(std::move(*stream)));
    }
  }
  Task<> serve(net::StreamPtr stream) {
    if (!tls_) co_return co_await http::serve_http1(std::move(stream), "", false, limits, handler_);
    auto accepted = co_await tls_->accept(std::move(stream), "", std::chrono::seconds(5));
    if (!accepted.ok()) co_return;
    if (accepted->protocol == "h2" && kind_ == Kind::kTls)
      co_return co_await http::serve_http2(std::move(accepted->stream), "", true, limits, handler_);
    co_await http::serve_http1(std::move(accepted->stream), "", true, limits, handler_);
  }

  async::Scope& scope_;
  Kind kind_;
  http::Handler handler_;
  std::unique_ptr<net::Listener> listener_;
  std::shared_ptr<net::TlsServerContext> tls_;
};

// A loop with an Upstream; run() plays a script and takes all down.
struct World {
  asio::io_context loop;
  async::Scope scope{loop.get_executor()};
  std::shared_ptr<FakeResolver> resolver = std::make_shared<FakeResolver>();
  Upstream upstream{loop.get_executor(), resolver, *net::make_tls_client(test_authority().certificate_chain)};
  bool done = false;

  World() { resolver->names["api.example"] = {ip("127.0.0.1")}; }

  Route route(std::uint16_t port, std::string sandbox = "sandbox 1") {
    Route out{.authority = authority("api.example:" + std::to_string(port))};
    out.sandbox = std::move(sandbox);
    out.check = loopback_only;
    return out;
  }
  using Script = std::function<Task<>(World&)>;
  void run(const Script& script) {
    asio::co_spawn(loop, play(script), asio::detached);
    loop.run();
    EXPECT_TRUE(done) << "the test's task hangs";
  }

 private:
  Task<> play(const Script& script) {
    co_await script(*this);
    co_await upstream.shut_down();
    scope.cancel();
    co_await scope.join();
    done = true;
  }
};

inline http::RequestHead request(std::string method = "GET", std::string target = "/") {
  http::RequestHead head;
  head.method = std::move(method);
  head.target = std::move(target);
  head.authority = "api.example";
  return head;
}

inline Task<Result<http::Answer>> ask(Upstream& upstream, Route route, http::RequestHead head,
                                      std::string body = "") {
  head.has_body = !body.empty();
  if (head.has_body) head.content_length = body.size();
  CO_TRY(auto exchange, co_await upstream.start(std::move(route), std::move(head)));
  if (!body.empty()) CO_TRY_VOID(co_await exchange->write_body(body));
  CO_TRY(auto answer, co_await exchange->read_head());
  CO_TRY(auto text, co_await exchange->read_all(1 << 20));
  co_return http::Answer{std::move(answer), std::move(text)};
}

}  // namespace atl::gateway::testing
