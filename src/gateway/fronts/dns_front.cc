// SPDX-License-Identifier: Apache-2.0
#include "gateway/fronts/dns_front.h"

#include "base/log.h"
#include "gateway/dns/wire.h"
#include "model/guest_boot.h"

namespace atl::gateway {
namespace {

using async::Task;

// Short: what a name may do can change, and a program asks us again for nothing.
constexpr std::uint32_t kTtlSeconds = 60;
constexpr auto kStreamIdle = std::chrono::seconds(20);
constexpr std::size_t kMaxFrame = dns::kMaxQueryBytes + dns::kFrameHead;

// What is behind the name is looked up when a connection to it is made.
Task<dns::Answer> decide(Parts& parts, const Sandbox& sandbox, const std::string& label,
                         const dns::Query& query) {
  dns::Answer out;
  out.ttl_seconds = kTtlSeconds;
  if (query.name == model::kGatewayName) {
    if (query.type == dns::kTypeA) out.address = *parse_ip(model::kGatewayAddress);
    co_return out;
  }
  if (!query.name || !sandbox.policy->may_resolve(*query.name, label)) {
    policy::Refusal refusal{std::string(policy::kDefaultRule), "no rule allows this name", "allow the host"};
    parts.events.add(sandbox, "egress.name_denied", query.name.value_or("?"), refusal.rule, refusal.reason,
                     label);
    out.rcode = dns::Rcode::kNxDomain;
    co_return out;
  }
  if (query.type != dns::kTypeA) co_return out;
  auto address = co_await parts.names.address_of(sandbox.tenant, *query.name, sandbox.id);
  if (address) {
    out.address = *address;
  } else {
    log::error("a name could not be kept", {{"what", address.error().message()}});
    out.rcode = dns::Rcode::kServFail;
  }
  co_return out;
}

}  // namespace

Task<std::string> answer_question(Parts& parts, SandboxPtr sandbox, std::string label, std::string question) {
  auto share = parts.questions.take(sandbox->id, 1);
  auto incoming = dns::read_query(question);
  if (!share || !incoming) co_return std::string();
  dns::Answer answer;
  if (incoming->error) {
    answer.rcode = *incoming->error;
  } else {
    answer = co_await decide(parts, *sandbox, label, incoming->query);
  }
  co_return dns::write_answer(incoming->query, answer);
}

Task<> serve_dns_stream(Parts& parts, net::StreamPtr client, SandboxPtr sandbox, std::string label) {
  client->set_idle_limit(kStreamIdle);
  std::string received;
  char buffer[2048];
  while (true) {
    auto got = co_await client->read_some(buffer);
    if (!got || *got == 0) co_return;
    received.append(buffer, *got);
    while (auto message = dns::first_framed(received)) {
      std::string question(*message);
      received.erase(0, question.size() + dns::kFrameHead);
      // By the rules of now: a stream may be older than they are.
      SandboxPtr now = parts.registry.find(sandbox->id);
      if (!runs_on(now, *sandbox)) co_return;
      std::string answer = co_await answer_question(parts, std::move(now), label, std::move(question));
      if (answer.empty()) co_return;
      std::string framed = dns::frame(answer);
      if (!(co_await client->write_all(framed)).ok()) co_return;
    }
    if (received.size() > kMaxFrame) co_return;
  }
}

}  // namespace atl::gateway
