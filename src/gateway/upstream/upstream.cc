// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/upstream.h"

#include "async/event.h"
#include "gateway/upstream/bounded_exchange.h"
#include "http/h2/client.h"

namespace atl::gateway {

// One peer as one sandbox sees it.
struct Upstream::Origin {
  enum class Speaks : std::uint8_t { kUnknown, kHttp1, kHttp2 };
  Origin(const async::Executor& executor, Route r) : route(std::move(r)), settled(executor) {}

  Route route;
  Speaks speaks = Speaks::kUnknown;
  bool settling = false;  // somebody finds out what the peer speaks
  async::Event settled;
  std::optional<Error> failure;  // of the last try, for those who waited for it
  std::uint64_t tries = 0;
  net::StreamPtr prepared;  // a first connection that turned out to be HTTP/1.1
  std::shared_ptr<http::Client> http1;
  std::shared_ptr<http::H2Client> http2;
  std::uint64_t used = 0;
};

namespace {
constexpr char kEnd = '\n';  // occurs in no part of a key
constexpr int kMaxStarts = 3;

std::string key_of(const Route& route) {
  std::string out = route.sandbox;
  out.append({kEnd, route.tls ? 't' : 'p', route.h2 ? '2' : '1', kEnd});
  out.append(route.authority.text()) += kEnd;
  out.append(route.credential) += kEnd;
  for (const void* one :
       {static_cast<const void*>(route.certificate.get()), static_cast<const void*>(route.trust.get())}) {
    if (one != nullptr) fmt::format_to(std::back_inserter(out), "{}", one);
    out += kEnd;
  }
  if (route.proxy) out.append(route.proxy->authority.text()).append(" ").append(route.proxy->user);
  return out;
}

bool is_upgrade(const http::RequestHead& request) {
  return request.method == "CONNECT" || request.headers.find("upgrade").has_value();
}
}  // namespace

Upstream::Upstream(async::Executor executor, std::shared_ptr<Resolver> resolver,
                   std::shared_ptr<net::TlsClientContext> tls)
    : executor_(executor), resolver_(std::move(resolver)), tls_(std::move(tls)), scope_(executor) {}

Upstream::~Upstream() = default;

Upstream::OriginPtr Upstream::origin_of(Route route) {
  auto key = key_of(route);
  auto found = origins_.find(key);
  if (found == origins_.end()) {
    make_room(route.sandbox);
    auto origin = std::make_shared<Origin>(executor_, route);
    if (!route.tls || !route.h2) origin->speaks = Origin::Speaks::kHttp1;
    http::ClientLimits limits;
    limits.max_idle = kMaxIdle;
    limits.idle_timeout = kIdleTimeout;
    http::Connector connector = [this, weak = std::weak_ptr(origin)]() { return connect_http1(weak.lock()); };
    origin->http1 = http::make_client(std::move(connector), limits);
    found = origins_.emplace(std::move(key), std::move(origin)).first;
  }
  // The rules may have changed since; the next connection is made by these.
  found->second->route = std::move(route);
  found->second->used = ++clock_;
  return found->second;
}

void Upstream::make_room(const std::string& sandbox) {
  auto prefix = sandbox + kEnd;
  auto own = origins_.lower_bound(prefix);
  auto oldest_own = origins_.end(), oldest = origins_.end();
  std::size_t count = 0;
  auto older = [this](auto candidate, auto than) {
    return than == origins_.end() || candidate->second->used < than->second->used;
  };
  for (auto at = own; at != origins_.end() && at->first.starts_with(prefix); ++at, ++count) {
    if (older(at, oldest_own)) oldest_own = at;
  }
  if (count >= kMaxOriginsPerSandbox) {
    origins_.erase(oldest_own);
  } else if (origins_.size() >= kMaxOrigins) {
    for (auto at = origins_.begin(); at != origins_.end(); ++at) {
      if (older(at, oldest)) oldest = at;
    }
    origins_.erase(oldest);
  }
}

Task<Result<net::TlsClientContext::Connected>> Upstream::open(Route route, net::Http2 h2) {
  CO_TRY(net::StreamPtr plain, co_await dial(resolver_, route));
  if (!route.tls) {
    net::TlsClientContext::Connected out;
    out.stream = std::move(plain);
    co_return out;
  }
  co_return co_await dial_tls(tls_, std::move(plain), route, h2);
}

// A connection takes seconds to make, and whoever asked for it may not send any more. The question is taken
// out of the route, which is one for all requests to an origin.
http::BeforeSend Upstream::take_question(Route& route) {
  auto may_send = std::exchange(route.may_send, nullptr);
  if (!may_send) return {};
  return [may_send = std::move(may_send), name = route.authority.text()]() -> Result<void> {
    if (may_send()) return success();
    return make_error(Code::kCancelled,
                      "the sandbox rests, or its rules or credentials have changed; nothing was sent to {}",
                      name)
        .with_word("not_running");
  };
}

Task<Result<net::StreamPtr>> Upstream::connect(Route route) {
  CO_TRY(auto connected, co_await open(std::move(route), net::Http2::kNo));
  co_return std::move(connected.stream);
}

Task<Result<net::StreamPtr>> Upstream::connect_http1(OriginPtr origin) {
  if (!origin) co_return make_error(Code::kCancelled, "connect: the sandbox has gone");
  if (origin->prepared) co_return std::move(origin->prepared);
  CO_TRY(auto connected, co_await open(origin->route, net::Http2::kNo));
  co_return std::move(connected.stream);
}

// Makes the first connection, or another one over HTTP/2. One task does it; those who wait share its failure.
Task<Result<void>> Upstream::settle_protocol(OriginPtr origin) {
  if (origin->settling) {
    auto before = origin->tries;
    while (origin->settling) co_await origin->settled.wait();
    if (origin->tries != before && origin->failure) co_return *origin->failure;
    co_return success();
  }
  struct Settling {
    Origin& origin;
    ~Settling() {
      origin.settling = false;
      origin.settled.notify_all();
    }
  };
  origin->settling = true;
  Settling guard{*origin};
  auto connected = co_await open(origin->route, net::Http2::kYes);
  ++origin->tries;
  origin->failure = std::nullopt;
  if (!connected.ok()) {
    origin->failure = connected.error();
    co_return std::move(connected).error();
  }
  if (connected->protocol != "h2") {
    origin->speaks = Origin::Speaks::kHttp1;
    origin->prepared = std::move(connected->stream);
    co_return success();
  }
  http::H2ClientLimits limits;
  limits.idle_timeout = kIdleTimeout;
  limits.memory = origin->route.memory;
  auto client = http::make_h2_client(scope_, executor_, std::move(connected->stream), limits);
  if (!client.ok()) co_return std::move(client).error();
  if (origin->http2) origin->http2->close_idle();
  origin->http2 = std::move(*client);
  origin->speaks = Origin::Speaks::kHttp2;
  co_return success();
}

Task<Result<std::unique_ptr<http::ClientExchange>>> Upstream::start_once(OriginPtr origin,
                                                                         http::RequestHead request,
                                                                         http::BeforeSend before) {
  // A raw connection can be had over HTTP/1.1 only; every peer that is asked for one speaks it.
  if (is_upgrade(request)) co_return co_await origin->http1->start(std::move(request), std::move(before));
  for (int i = 0; i < kMaxStarts; ++i) {
    if (origin->speaks == Origin::Speaks::kHttp1)
      co_return co_await origin->http1->start(std::move(request), std::move(before));
    if (origin->http2 && origin->http2->usable())
      co_return co_await origin->http2->start(std::move(request), std::move(before));
    CO_TRY_VOID(co_await settle_protocol(origin));
    if (before) CO_TRY_VOID(before());
  }
  co_return make_error(Code::kUnavailable, "{} takes no requests now", origin->route.authority.text());
}

Task<Result<std::unique_ptr<http::ClientExchange>>> Upstream::start(Route route, http::RequestHead request) {
  auto limits = route.limits;
  auto before = take_question(route);
  request.secure = route.tls;
  auto origin = origin_of(std::move(route));
  if (origin->speaks == Origin::Speaks::kHttp1) {
    // The client of HTTP/1.1 repeats by itself what may be repeated, and needs no copy for that.
    CO_TRY(auto simple, co_await origin->http1->start(std::move(request), std::move(before)));
    BoundedExchange::Repeat never;
    co_return std::make_unique<BoundedExchange>(std::move(simple), limits, std::move(never));
  }
  bool had_connection = origin->http2 != nullptr;
  auto again = [this, origin, request, before]() { return start_once(origin, request, before); };
  auto exchange = co_await start_once(origin, request, before);
  if (!exchange.ok() && exchange.error().word() == http::kNotProcessed)
    exchange = co_await start_once(origin, request, before);
  if (!exchange.ok()) co_return std::move(exchange).error();
  bool idempotent = had_connection && http::is_idempotent(request.method) && !request.has_body &&
                    request.content_length.value_or(0) == 0;
  BoundedExchange::Repeat repeat{std::move(again), idempotent};
  co_return std::make_unique<BoundedExchange>(std::move(*exchange), limits, std::move(repeat));
}

void Upstream::forget(const std::string& id) {
  forget_from(id + kEnd);
  forget_from(id + '/');
}

void Upstream::forget_from(const std::string& prefix) {
  auto at = origins_.lower_bound(prefix);
  while (at != origins_.end() && at->first.starts_with(prefix)) {
    at->second->http1->close_idle();
    at->second->prepared.reset();
    if (at->second->http2) at->second->http2->close_idle();
    at = origins_.erase(at);
  }
}

Task<> Upstream::shut_down() {
  for (auto& [key, origin] : origins_) {
    origin->http1->close_idle();
    if (origin->http2) origin->http2->close_idle();
  }
  origins_.clear();
  scope_.cancel();
  co_await async::shield();
  co_await scope_.join();
}

int upstream_status(const Error& error) {
  if (error.word() == "address_denied") return 403;
  switch (error.code()) {
    case Code::kDeadline: return 504;
    case Code::kUnavailable:
    case Code::kCorrupt:
    case Code::kNotFound: return 502;
    default: return http_status(error.code());
  }
}

}  // namespace atl::gateway
