// SPDX-License-Identifier: Apache-2.0
#include "gateway/fronts/transparent.h"

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "base/log.h"
#include "gateway/flow/http_flow.h"
#include "gateway/fronts/refusal.h"
#include "http/front/front.h"
#include "net/prefix_stream.h"
#include "net/relay.h"

namespace atl::gateway {
namespace {

using async::Task;
using Way = policy::ConnectionDecision::Way;

constexpr auto kPatience = std::chrono::seconds(60);  // with a client that connected ahead of need

Task<> deny(Parts& parts, net::StreamPtr client, const Inbound& in, const FirstBytes& first,
            policy::Refusal refusal, TlsAlert alert = TlsAlert::kAccessDenied) {
  parts.events.denied(*in.sandbox, in.dialled.text(), refusal, in.label);
  co_await refuse_connection(std::move(client), first, std::move(refusal), alert);
}

policy::Refusal broken(std::string_view reason) {
  return {"malformed", std::string(reason), "send well-formed TLS or HTTP"};
}

policy::Refusal not_inspectable(const policy::ConnectionDecision& decision) {
  return {decision.rule, "only HTTP and TLS can be looked at as the rule demands, and this is neither",
          "a rule that lets the connection pass as it is"};
}

// Secrets go to this host, so that what is sent to it must be seen.
bool is_brokered(Parts& parts, const Inbound& in) {
  vault::BindingRequest request{in.sandbox->tenant,
                                in.sandbox->id,
                                in.sandbox->template_id,
                                in.dialled.host,
                                in.dialled.port,
                                true,
                                {},
                                {}};
  return vault::is_brokered(parts.vault.bindings(), request);
}

Way way_of(Parts& parts, const Inbound& in, const FirstBytes& first,
           const policy::ConnectionDecision& decision) {
  if (decision.way != Way::kPass) return decision.way;
  bool named = !in.dialled.host.is_address();
  // Requests to a named host are looked at one by one, whatever the rules: each says anew whom it is for.
  if (first.kind == policy::Stream::kHttp && named) return Way::kInspect;
  if (first.kind == policy::Stream::kTls && is_brokered(parts, in)) return Way::kInspect;
  if (first.kind == policy::Stream::kOther && is_brokered(parts, in)) return Way::kInspect;
  return Way::kPass;
}

// Nothing about what is said in this connection matters: it goes to somewhere that everybody may reach.
bool is_open(Parts& parts, const Inbound& in) {
  const policy::Policy& policy = *in.sandbox->policy;
  for (auto kind : {policy::Stream::kHttp, policy::Stream::kTls}) {
    if (policy.connection(connection_facts(in, kind)).way == Way::kDeny) return false;
  }
  auto decision = policy.connection(connection_facts(in, policy::Stream::kOther));
  bool by_default = decision.way == Way::kPass && decision.rule == policy::kDefaultRule;
  return by_default && !policy.may_inspect() && !is_brokered(parts, in);
}

// How the connection goes on by what is known now; kDeny when its sandbox no longer runs.
Way way_now(Parts& parts, const Inbound& in, const FirstBytes& first) {
  SandboxPtr now = parts.registry.find(in.sandbox->id);
  if (!runs_on(now, *in.sandbox) || !same_proxy(now->proxy.get(), in.sandbox->proxy.get())) return Way::kDeny;
  return way_of(parts, in, first, now->policy->connection(connection_facts(in, first.kind)));
}

// The name in a ClientHello must be the one that was dialled. To an address anything may be said: the address
// was judged, and it is what is dialled.
Result<void> check_name(const Inbound& in, const FirstBytes& first) {
  if (first.kind != policy::Stream::kTls || !first.hello.sni || in.dialled.host.is_address())
    return success();
  AuthorityClaims claims;
  claims.dialled = in.dialled;
  claims.sni = *first.hello.sni;
  auto agreed = agree(claims);
  return agreed.ok() ? success() : Result<void>(std::move(agreed).error());
}

void reset(net::Stream& client, net::Stream& server) {
  client.close(net::Stream::Close::kReset);
  server.close(net::Stream::Close::kReset);
}

// Of a client that let the server speak first: its first bytes, looked at as they would have been before.
Task<> late_first_bytes(Parts& parts, net::Stream& client, net::Stream& server, const Inbound& in) {
  auto read = co_await read_first_bytes(client, net::kHalfOpenIdle);
  bool fine = read.ok() && read->broken.empty() && check_name(in, *read).ok();
  bool spoke = fine && !read->bytes.empty();
  if (spoke) fine = way_now(parts, in, *read) == Way::kPass;
  if (spoke && !fine) {
    policy::Refusal refusal{"late", "what the client sent after the server is not allowed here", ""};
    parts.events.denied(*in.sandbox, in.dialled.text(), refusal, in.label);
  }
  if (spoke && fine) fine = (co_await server.write_all(read->bytes)).ok();
  if (!fine || (!spoke && !read->ended)) {
    reset(client, server);
    co_return;
  }
  client.set_idle_limit(Steady::duration::zero());
  co_await net::relay_one_way(client, server, memory_of(parts, *in.sandbox));
}

Task<> relay_both(Parts& parts, net::Stream& client, net::Stream& server, const Inbound& in,
                  const FirstBytes& first) {
  FairShare::User memory = memory_of(parts, *in.sandbox);
  if (first.bytes.empty() && !first.ended && !is_open(parts, in)) {
    using namespace async::asio::experimental::awaitable_operators;
    server.set_idle_limit(Steady::duration::zero());
    co_await (late_first_bytes(parts, client, server, in) && net::relay_one_way(server, client, memory));
    co_return;
  }
  if (!first.bytes.empty() && !(co_await server.write_all(first.bytes)).ok()) {
    reset(client, server);
    co_return;
  }
  co_await net::relay(client, server, memory);
}

// Bytes as they are, both ways, until both have ended or the connection is no longer allowed to be passed.
Task<> pass(Parts& parts, net::StreamPtr client, Inbound in, FirstBytes first) {
  Route route{in.dialled};
  route.tls = false;
  choose_way(parts, in, first.kind, route);
  auto dialled = co_await parts.upstream.connect(std::move(route));
  if (!dialled) {
    const Error& error = dialled.error();
    bool denied = error.code() == Code::kDenied;
    policy::Refusal refusal{denied ? "address" : "unreachable", error.message(), error.hint()};
    if (denied) parts.events.denied(*in.sandbox, in.dialled.text(), refusal, in.label);
    co_await refuse_connection(std::move(client), first, std::move(refusal));
    co_return;
  }
  net::StreamPtr server = std::move(*dialled);
  in.note_peer(*server);
  net::Stream *a = client.get(), *b = server.get();
  Flows::Entry entry;
  entry.may_go_on = [&parts, &in, &first](const SandboxPtr&) {
    return way_now(parts, in, first) == Way::kPass;
  };
  entry.cut = [a, b] { reset(*a, *b); };
  auto flow = parts.flows.open(in.sandbox->id, std::move(entry));
  if (!flow) {
    reset(*a, *b);
    co_return;
  }
  co_await relay_both(parts, *client, *server, in, first);
}

Task<> inspect_http(Parts& parts, net::StreamPtr client, Inbound in, HttpOrigin origin) {
  http::ServerLimits limits = server_limits(parts, *in.sandbox);
  HttpFlow flow(parts, std::move(in), std::move(origin));
  http::FrontProtocols plain;
  http::Handler handler = [&flow](http::Exchange& exchange) { return flow.handle(exchange); };
  co_await http::serve_connection(std::move(client), plain, limits, handler);
}

Task<> inspect_tls(Parts& parts, net::StreamPtr client, Inbound in, FirstBytes first) {
  // Without a name in the hello there is nothing to compare, and clients that verify send one.
  if (!first.hello.sni && !in.dialled.host.is_address()) {
    policy::Refusal refusal{"no-sni", "the connection must be opened and names no host (no SNI)",
                            "send a server name"};
    co_await deny(parts, std::move(client), in, first, std::move(refusal), TlsAlert::kUnrecognizedName);
    co_return;
  }
  auto authority = parts.authorities.of(in.sandbox->id);
  if (!authority) {
    log::error("no certificate authority for a sandbox", {{"what", authority.error().message()}});
    client->close(net::Stream::Close::kReset);
    co_return;
  }
  InterceptRequest request;
  request.authority = *authority;
  request.host = in.dialled.host.text();
  request.client = upstream_key(*in.sandbox);
  auto accepted = co_await parts.interceptor.accept(std::move(client), first.bytes, std::move(request));
  if (!accepted) {
    parts.events.add(*in.sandbox, "egress.tls_failed", in.dialled.text(), "", accepted.error().message(),
                     in.label);
    co_return;
  }
  HttpOrigin origin;
  origin.secure = true;
  origin.sni = first.hello.sni;
  co_await inspect_http(parts, std::move(accepted->stream), std::move(in), std::move(origin));
}

// By what the rules say of what it turned out to be.
Task<> go_on(Parts& parts, net::StreamPtr client, Inbound in, FirstBytes first) {
  auto decision = in.sandbox->policy->connection(connection_facts(in, first.kind));
  if (decision.shadow)
    parts.events.add(*in.sandbox, "egress.shadow", in.dialled.text(), decision.shadow->rule,
                     decision.shadow->verdict, in.label);
  Way way = way_of(parts, in, first, decision);
  if (way == Way::kDeny) {
    policy::Refusal refusal = decision.refusal;
    co_await deny(parts, std::move(client), in, first, std::move(refusal));
  } else if (way == Way::kPass) {
    co_await pass(parts, std::move(client), std::move(in), std::move(first));
  } else if (first.kind == policy::Stream::kTls) {
    co_await inspect_tls(parts, std::move(client), std::move(in), std::move(first));
  } else if (first.kind == policy::Stream::kHttp) {
    net::StreamPtr whole = net::with_prefix(std::move(client), first.bytes);
    HttpOrigin plain;
    co_await inspect_http(parts, std::move(whole), std::move(in), std::move(plain));
  } else {
    policy::Refusal refusal = not_inspectable(decision);
    co_await deny(parts, std::move(client), in, first, std::move(refusal));
  }
}

}  // namespace

Task<> serve_transparent(Parts& parts, net::StreamPtr client, Inbound in) {
  bool open = is_open(parts, in);
  Steady::duration slowest = kSlowest;
  if (open) slowest = kSilence;
  auto read = co_await read_first_bytes(*client, kSilence, slowest);
  if (!read) co_return;
  // Whatever it would have become may go there, so nobody waits for more.
  if (open && read->kind == policy::Stream::kHttp && !read->broken.empty()) {
    read->kind = policy::Stream::kOther;
    read->broken = {};
  }
  bool silent = read->bytes.empty() && !read->ended;
  // Where only what the client will say can let it through, it is waited for: some connect ahead of need.
  if (silent && way_now(parts, in, *read) != Way::kPass) read = co_await read_first_bytes(*client, kPatience);
  if (!read) co_return;
  FirstBytes first = std::move(*read);
  // The rules may be others by now.
  SandboxPtr now = parts.registry.find(in.sandbox->id);
  if (!runs_on(now, *in.sandbox)) {
    client->close(net::Stream::Close::kReset);
    co_return;
  }
  in.sandbox = std::move(now);
  if (!first.broken.empty()) {
    co_await deny(parts, std::move(client), in, first, broken(first.broken), TlsAlert::kDecode);
    co_return;
  }
  if (auto named = check_name(in, first); !named) {
    policy::Refusal refusal{"misdirected", named.error().message(), "connect to the host that is named"};
    co_await deny(parts, std::move(client), in, first, std::move(refusal), TlsAlert::kUnrecognizedName);
    co_return;
  }
  co_await go_on(parts, std::move(client), std::move(in), std::move(first));
}

}  // namespace atl::gateway
