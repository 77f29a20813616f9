// SPDX-License-Identifier: Apache-2.0
#include "control/vault_link.h"

#include "async/within.h"

namespace atl::control {
namespace {

// An authorization may wait for an endpoint somewhere in the world.
constexpr auto kLimit = std::chrono::seconds(90);
constexpr std::size_t kMaxAnswer = 8 << 20;  // a thousand secrets with all their metadata

Error unavailable(std::string_view why) {
  return make_error(Code::kUnavailable,
                    "the gateway, which keeps secrets, rules and approvals, cannot be reached: {}", why)
      .with_word("gateway_unavailable")
      .with_hint("look at the state of atoll-gateway: atoll status");
}

}  // namespace

Task<Result<http::Answer>> VaultLink::call(std::string method, std::string tenant, std::string path,
                                           Secret body) const {
  std::string target = fmt::format("/v1/vault/{}/{}", http::percent_encode(tenant), path);
  return ask(std::move(method), std::move(target), std::move(body));
}

Task<Result<http::Answer>> VaultLink::rules(std::string method, std::string path, std::string body) const {
  return ask(std::move(method), "/v1/rules" + path, Secret(std::move(body)));
}

Task<Result<http::Answer>> VaultLink::approvals(std::string method, std::string tenant, std::string path,
                                                std::string body) const {
  std::string target = fmt::format("/v1/approvals/{}{}", http::percent_encode(tenant), path);
  return ask(std::move(method), std::move(target), Secret(std::move(body)));
}

Task<Result<http::Answer>> VaultLink::ask(std::string method, std::string target, Secret body) const {
  if (!connect_) {
    co_return make_error(Code::kUnsupported,
                         "secrets, rules and approvals are kept by the gateway, which does not run")
        .with_word("gateway_off")
        .with_hint("start Atoll with it: atoll up --gateway");
  }
  http::RequestHead head;
  head.method = std::move(method);
  head.target = std::move(target);
  head.authority = "gateway";
  head.has_body = !body.empty();
  if (head.has_body) {
    head.content_length = body.reveal().size();
    head.headers.add("content-type", "application/json");
  }
  // A connection of its own: none that broke meanwhile, and none that waits behind a slow call.
  auto client = http::make_client(connect_);
  auto answer = co_await async::within(kLimit, "ask the gateway",
                                       http::fetch(client, std::move(head), body.reveal(), kMaxAnswer));
  client->close_idle();
  if (!answer.ok()) co_return unavailable(answer.error().message());
  co_return std::move(*answer);
}

}  // namespace atl::control
