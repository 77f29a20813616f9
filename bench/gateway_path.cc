// SPDX-License-Identifier: Apache-2.0
//
// bench_gateway_path --listen N --to N [--secret TEXT]
//
// A reverse proxy made of the gateway's own parts: its HTTP server, requests and answers made anew, its pool
// of upstream connections, and, with --secret, a header that is set and the search for it in the answer. No
// sandbox, no policy, no TLS: what is left is the way of the bytes, which bench/gateway_path compares with
// nginx on the same way.
#include "client.h"
#include "gateway/upstream/answer_body.h"
#include "gateway/upstream/answer_head.h"
#include "gateway/upstream/request_head.h"
#include "gateway/upstream/upstream.h"
#include "http/server.h"
#include "net/tcp.h"

namespace {

using namespace atl;
using namespace atl::gateway;

struct Path {
  async::asio::io_context loop{1};
  async::Scope scope{loop.get_executor()};
  std::shared_ptr<Resolver> resolver = *make_resolver(loop.get_executor());
  Upstream upstream{loop.get_executor(), resolver, *net::make_tls_client("")};
  Authority authority = *parse_authority("127.0.0.1:80", 80);
  std::string secret;
  std::vector<std::string> injected;
  std::shared_ptr<const SecretPatterns> patterns;
  http::ServerLimits limits;
  http::Handler handler;
};

Result<void> anywhere(const IpAddress&) { return success(); }

Task<Result<void>> pass(Path& path, http::Exchange& exchange) {
  RequestRules rules{.authority = path.authority, .tls = false};
  rules.read_answer = path.patterns != nullptr;
  rules.injected = path.injected;
  CO_TRY(http::RequestHead request, prepare_request(exchange.request(), rules));
  if (path.patterns) request.headers.set("authorization", "Bearer " + path.secret);
  Route route{.authority = path.authority};
  route.tls = false;
  route.sandbox = "sandbox";
  route.check = anywhere;
  CO_TRY(auto upstream, co_await path.upstream.start(std::move(route), std::move(request)));
  if (exchange.request().has_body) {
    CO_TRY(std::string body, co_await exchange.read_all(1 << 20));
    CO_TRY_VOID(co_await upstream->write_body(body));
  }
  CO_TRY(http::ResponseHead head, co_await upstream->read_head());
  std::string coding(head.headers.find("content-encoding").value_or(""));
  AnswerRules answer{.authority = path.authority, .tls = false};
  answer.brokered = answer.body_changes = path.patterns != nullptr;
  answer.patterns = path.patterns;
  CO_TRY(PreparedAnswer prepared, prepare_answer(std::move(head), answer));
  if (!path.patterns) coding.clear();
  CO_TRY(AnswerBody body, AnswerBody::make(*upstream, coding, path.patterns));
  co_return co_await pass_answer(body, std::move(prepared.head), exchange, nullptr);
}

Task<> handle(Path& path, http::Exchange& exchange) {
  auto passed = co_await pass(path, exchange);
  if (passed.ok()) co_return;
  exchange.abort();
}

Task<> serve(Path& path, net::StreamPtr stream) {
  co_await http::serve_http1(std::move(stream), "", false, path.limits, path.handler);
}

Task<> listen(Path& path, std::unique_ptr<net::Listener> listener) {
  for (;;) {
    auto stream = co_await listener->accept();
    if (!stream.ok()) co_return;
    path.scope.spawn("serve", serve(path, std::move(*stream)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  Path path;
  path.authority = *parse_authority("127.0.0.1:" + options.text("to"), 80);
  path.secret = options.text("secret");
  if (!path.secret.empty()) {
    path.injected = {"authorization"};
    std::vector<SecretPatterns::Pattern> patterns;
    patterns.push_back({Secret(path.secret), "placeholder"});
    path.patterns = std::make_shared<SecretPatterns>(patterns);
  }
  path.handler = [&path](http::Exchange& exchange) { return handle(path, exchange); };
  net::Endpoint endpoint{"127.0.0.1", static_cast<std::uint16_t>(options.number("listen", 0))};
  auto listener = net::listen_tcp(path.loop.get_executor(), endpoint);
  if (!listener.ok()) bench::fail(listener.error().message());
  path.scope.spawn("listen", listen(path, std::move(*listener)));
  path.loop.run();
  return 0;
}
