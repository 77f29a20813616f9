// SPDX-License-Identifier: Apache-2.0
#include "gateway/fronts/front.h"

#include "gateway/flow/enlisted_stream.h"
#include "gateway/fronts/dns_front.h"
#include "gateway/fronts/proxy_front.h"
#include "gateway/fronts/transparent.h"
#include "model/guest_boot.h"
#include "model/slot_address.h"

namespace atl::gateway {
namespace {

using async::Task;

constexpr std::size_t kMaxQuestion = 1232;  // what the network carries whole (DNS flag day 2020)
constexpr std::uint16_t kDnsPort = 53;

// A name for a synthetic address, the address itself for another; nothing for a synthetic one without a name.
std::optional<Authority> dialled(Names& names, const Sandbox& sandbox, const net::Endpoint& meant) {
  auto address = parse_ip(meant.address);
  if (!address) return std::nullopt;
  if (!is_synthetic(*address)) return Authority{Host(*address), meant.port};
  auto name = names.name_of(sandbox.tenant, *address, sandbox.id);
  if (!name) return std::nullopt;
  auto host = parse_host(*name);
  if (!host) return std::nullopt;
  return Authority{std::move(*host), meant.port};
}

}  // namespace

Front::Front(async::Executor executor, Parts& parts, std::unique_ptr<net::Listener> listener,
             std::unique_ptr<net::DatagramSocket> datagrams)
    : parts_(parts), listener_(std::move(listener)), datagrams_(std::move(datagrams)), scope_(executor) {}

void Front::start() {
  scope_.spawn("connections", accept_loop());
  scope_.spawn("questions", question_loop());
}

Task<> Front::stop() {
  listener_->close();
  datagrams_->close();
  scope_.cancel();
  co_await scope_.join();
}

Task<> Front::accept_loop() {
  while (true) {
    auto client = co_await listener_->accept();
    if (!client) co_return;
    scope_.spawn("connection", serve(std::move(*client)));
  }
}

Task<> Front::question_loop() {
  while (true) {
    auto question = co_await datagrams_->receive(kMaxQuestion);
    if (!question) co_return;
    scope_.spawn("question", answer(std::move(*question)));
  }
}

Front::Speaker Front::speaker(const net::Endpoint& peer) const {
  auto address = parse_ip(peer.address);
  if (!address || !address->is_v4()) return {};
  std::uint32_t v = address->v4_value();
  auto from = model::sender_of({static_cast<std::uint8_t>(v >> 24), static_cast<std::uint8_t>(v >> 16),
                                static_cast<std::uint8_t>(v >> 8), static_cast<std::uint8_t>(v)});
  SandboxPtr sandbox = from ? parts_.registry.by_slot(from->slot) : nullptr;
  bool may = sandbox && sandbox->policy && sandbox->state == model::State::kRunning;
  // A label that nobody has told of must not pass for none.
  if (!may || from->label > sandbox->labels.size()) return {};
  return {sandbox, from->label == 0 ? std::string() : sandbox->labels[from->label - 1]};
}

Task<> Front::serve(net::StreamPtr client) {
  auto peer = net::parse_endpoint(client->peer());
  auto meant = net::original_destination(*client);
  Speaker who;
  if (peer.ok() && meant.ok()) who = speaker(*peer);
  SandboxPtr sandbox = who.sandbox;
  if (!sandbox) {
    client->close(net::Stream::Close::kReset);
    co_return;
  }
  client = enlist(parts_.flows, sandbox, std::move(client));
  if (!client) co_return;
  if (meant->port == kDnsPort) {
    co_await serve_dns_stream(parts_, std::move(client), std::move(sandbox), std::move(who.label));
    co_return;
  }
  if (meant->address == model::kGatewayAddress) {
    co_await serve_proxy(parts_, std::move(client), std::move(sandbox), std::move(who.label));
    co_return;
  }
  auto target = dialled(parts_.names, *sandbox, *meant);
  if (!target) {
    policy::Refusal refusal{"unknown-name", "no name stands for this address in this sandbox's tenant",
                            "look the name up again"};
    parts_.events.denied(*sandbox, fmt::format("{}:{}", meant->address, meant->port), refusal, who.label);
    client->close(net::Stream::Close::kReset);
    co_return;
  }
  Inbound in{std::move(sandbox), std::move(who.label), std::move(*target)};
  co_await serve_transparent(parts_, std::move(client), std::move(in));
}

Task<> Front::answer(net::Datagram question) {
  Speaker who = speaker(question.peer);
  if (!who.sandbox) co_return;
  std::string text =
      co_await answer_question(parts_, std::move(who.sandbox), std::move(who.label), question.payload);
  if (!text.empty()) datagrams_->send({std::move(text), question.peer});
}

}  // namespace atl::gateway
