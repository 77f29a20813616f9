// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/dial.h"

#include "net/tcp.h"

namespace atl::gateway {
namespace {
// One address that does not answer must not use up the time of the others.
constexpr auto kLeastTry = std::chrono::milliseconds(500);

Task<Result<net::StreamPtr>> connect_first(std::vector<IpAddress> addresses, std::uint16_t port,
                                           Steady::duration limit, std::string name) {
  if (limit <= Steady::duration::zero()) limit = Timeouts().connect;
  auto until = Steady::now() + limit;
  auto tries = std::min(addresses.size(), kMaxTries);
  std::optional<Error> last;
  for (std::size_t i = 0; i < tries; ++i) {
    auto left = until - Steady::now();
    if (left <= Steady::duration::zero()) break;
    net::ConnectOptions options;
    options.timeout = std::min<Steady::duration>(
        left, std::max<Steady::duration>(kLeastTry, left / static_cast<int>(tries - i)));
    net::Endpoint endpoint{addresses[i].text(), port};
    auto stream = co_await net::connect_tcp(std::move(endpoint), std::move(options));
    if (stream.ok()) co_return std::move(*stream);
    last = std::move(stream).error();
  }
  if (!last) last = make_error(Code::kDeadline, "no time is left");
  auto code = last->code() == Code::kDeadline ? Code::kDeadline : Code::kUnavailable;
  co_return std::move(*last).with_code(code).with_word("connect_failed").context(name);
}

// `authority` is the route's, or that of its proxy.
Task<Result<net::StreamPtr>> dial_direct(std::shared_ptr<Resolver> resolver, Authority authority,
                                         AddressCheck check, const Route& route) {
  CO_TRY(auto addresses,
         co_await checked_addresses(std::move(resolver), authority.host, std::move(check), route.sandbox));
  co_return co_await connect_first(std::move(addresses), authority.port, route.limits.connect,
                                   authority.text());
}
}  // namespace

Task<Result<net::StreamPtr>> dial(std::shared_ptr<Resolver> resolver, Route route) {
  if (!route.check || (route.proxy && !route.proxy_check))
    co_return make_error(Code::kInternal, "dial {}: no check of addresses", route.authority.text());
  if (!route.proxy) co_return co_await dial_direct(std::move(resolver), route.authority, route.check, route);
  if (route.authority.host.is_address()) CO_TRY_VOID(route.check(route.authority.host.address()));
  auto proxied = co_await dial_direct(std::move(resolver), route.proxy->authority, route.proxy_check, route);
  if (!proxied.ok()) co_return std::move(proxied).error().context("egress proxy");
  auto stream = std::move(*proxied);
  // The proxy connects in this time, too.
  stream->set_idle_limit(route.limits.tls);
  CO_TRY_VOID(co_await socks5_connect(*stream, *route.proxy, route.authority));
  stream->set_idle_limit(Steady::duration::zero());
  co_return stream;
}

Task<Result<net::TlsClientContext::Connected>> dial_tls(std::shared_ptr<net::TlsClientContext> context,
                                                        net::StreamPtr stream, Route route, net::Http2 h2) {
  const auto& host = route.authority.host;
  net::TlsClientOptions options;
  options.host = host.is_address() ? host.address().text() : host.name();
  options.h2 = h2;
  // Sessions are resumed by whoever made them only, and with the same certificate to show.
  options.session_key = fmt::format("{}\n{}\n{}", route.authority.port, route.sandbox, route.credential);
  options.identity = route.certificate;
  options.limit = route.limits.tls;
  auto trust = route.trust ? route.trust : std::move(context);
  co_return co_await trust->connect(std::move(stream), std::move(options));
}

}  // namespace atl::gateway
