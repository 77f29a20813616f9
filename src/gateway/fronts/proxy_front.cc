// SPDX-License-Identifier: Apache-2.0
#include "gateway/fronts/proxy_front.h"

#include "gateway/flow/http_flow.h"
#include "gateway/flow/refusal.h"
#include "gateway/flow/shown_token.h"
#include "gateway/fronts/service_front.h"
#include "gateway/fronts/transparent.h"
#include "http/front/front.h"

namespace atl::gateway {
namespace {

using async::Task;

// Serves what comes over one connection to the proxy.
class ProxyFlow {
 public:
  ProxyFlow(Parts& parts, SandboxPtr sandbox, std::string label)
      : parts_(parts), sandbox_(std::move(sandbox)), label_(std::move(label)) {}

  Task<> handle(http::Exchange& exchange) {
    http::RequestHead& request = exchange.request();
    if (request.method == "CONNECT") {
      co_await tunnel(exchange);
      co_return;
    }
    // "GET https://host/": the client leaves TLS to its proxy. It goes on inside TLS or not at all.
    bool secure = request.scheme == "https";
    auto target = parse_authority(request.authority, usual_port(secure));
    if (!target) {
      HttpRefusal no = http_refusal(400, {"malformed", target.error().message(), target.error().hint()});
      (void)co_await exchange.respond(std::move(no.head), std::move(no.body));
      co_return;
    }
    Inbound in{sandbox_, label_, std::move(*target)};
    if (is_gateway_itself(in.dialled)) {
      co_await serve_service(parts_, std::move(in), exchange);
      co_return;
    }
    HttpOrigin origin;
    origin.secure = secure;
    origin.proxy = true;
    HttpFlow flow(parts_, std::move(in), std::move(origin));
    co_await flow.handle(exchange);
  }

 private:
  // What comes through it is judged like any other connection: by its first bytes.
  Task<> tunnel(http::Exchange& exchange) {
    auto target = parse_authority(exchange.request().target, 0);
    if (!target || exchange.request().has_body) {
      std::string why = target.ok() ? "CONNECT has no body" : target.error().message();
      HttpRefusal no = http_refusal(400, {"malformed", why, ""});
      (void)co_await exchange.respond(std::move(no.head), std::move(no.body));
      co_return;
    }
    // The connection may be older than the rules of today.
    SandboxPtr now = parts_.registry.find(sandbox_->id);
    if (!runs_on(now, *sandbox_)) {
      exchange.abort();
      co_return;
    }
    Inbound in{now, label_, std::move(*target)};
    if (auto shown = check_shown_token(parts_, in, exchange.request(), TokenNeed::kOptional); !shown) {
      policy::Refusal refusal{std::string(shown.error().word()), shown.error().message(),
                              shown.error().hint()};
      parts_.events.denied(*sandbox_, in.dialled.text(), refusal, label_);
      HttpRefusal no = http_refusal(http_status(shown.error().code()), refusal);
      (void)co_await exchange.respond(std::move(no.head), std::move(no.body));
      co_return;
    }
    // Where no kind of stream may go, say so in HTTP, while that can be understood.
    if (auto refusal = refused_outright(in)) {
      parts_.events.denied(*sandbox_, in.dialled.text(), *refusal, label_);
      HttpRefusal no = http_refusal(403, *refusal);
      (void)co_await exchange.respond(std::move(no.head), std::move(no.body));
      co_return;
    }
    http::ResponseHead yes;
    yes.status = 200;
    auto stream = co_await exchange.upgrade(std::move(yes));
    if (!stream) co_return;
    co_await serve_transparent(parts_, std::move(*stream), std::move(in));
  }

  std::optional<policy::Refusal> refused_outright(const Inbound& in) const {
    std::optional<policy::Refusal> refusal;
    for (auto kind : {policy::Stream::kOther, policy::Stream::kHttp, policy::Stream::kTls}) {
      auto decision = in.sandbox->policy->connection(connection_facts(in, kind));
      if (decision.way != policy::ConnectionDecision::Way::kDeny) return std::nullopt;
      refusal = decision.refusal;
    }
    return refusal;
  }

  Parts& parts_;
  SandboxPtr sandbox_;
  const std::string label_;
};

}  // namespace

Task<> serve_proxy(Parts& parts, net::StreamPtr client, SandboxPtr sandbox, std::string label) {
  http::ServerLimits limits = server_limits(parts, *sandbox);
  ProxyFlow flow(parts, std::move(sandbox), std::move(label));
  http::FrontProtocols plain;
  http::Handler handler = [&flow](http::Exchange& exchange) { return flow.handle(exchange); };
  co_await http::serve_connection(std::move(client), plain, limits, handler);
}

}  // namespace atl::gateway
