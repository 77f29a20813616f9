// SPDX-License-Identifier: Apache-2.0
#include "ingress/dial.h"

#include <cerrno>

#include "async/within.h"
#include "model/guest_boot.h"
#include "net/tcp.h"

namespace atl::ingress {
namespace {

constexpr auto kFirstPause = std::chrono::milliseconds(20);
constexpr auto kLongestPause = std::chrono::milliseconds(200);

Task<Result<net::StreamPtr>> dial_slot(control::RoutePtr route, std::uint16_t port) {
  net::Endpoint guest{model::kGuestAddress, port};
  net::ConnectOptions options;
  options.interface = route->interface;
  co_return co_await net::connect_tcp(std::move(guest), std::move(options));
}

// CONNECT through the guest daemon, which dials the sandbox's loopback.
Task<Result<net::StreamPtr>> dial_loopback(const PortDial& how) {
  http::RequestHead request;
  request.method = "CONNECT";
  request.target = fmt::format("127.0.0.1:{}", how.port);
  request.authority = request.target;
  request.headers.add("x-atoll-internal", how.route->internal_token.reveal());
  CO_TRY(auto exchange, co_await how.guest_daemon->start(std::move(request)));
  auto answered = co_await async::within(how.agent_silence, "the guest daemon", exchange->read_head());
  if (!answered && answered.error().code() == Code::kDeadline)
    co_return std::move(answered).error().with_word(kAgentSilent);
  CO_TRY(auto head, std::move(answered));
  if (head.status != 200)
    co_return Error::from_errno(ECONNREFUSED,
                                fmt::format("connect to port {} in {}", how.port, how.route->sandbox));
  co_return exchange->take_stream();
}

}  // namespace

GuestDial slot_dial() { return dial_slot; }

Task<Result<net::StreamPtr>> open_port(PortDial how) {
  auto deadline = Steady::now() + how.refused_retry;
  Steady::duration pause = kFirstPause;
  while (true) {
    auto direct = co_await how.dial(how.route, how.port);
    if (direct.ok() || direct.error().sys_errno() != ECONNREFUSED || !how.guest_daemon) co_return direct;
    auto loopback = co_await dial_loopback(how);
    if (loopback.ok() || loopback.error().word() == kAgentSilent) co_return loopback;
    if (Steady::now() + pause > deadline) co_return direct;
    co_await async::sleep_for(pause);
    pause = std::min<Steady::duration>(pause * 2, kLongestPause);
  }
}

}  // namespace atl::ingress
