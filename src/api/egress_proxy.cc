// SPDX-License-Identifier: Apache-2.0
#include "api/egress_proxy.h"

#include <sodium.h>

namespace atl::api {
namespace {

constexpr std::size_t kMaxAddress = 259;  // a name of 253 bytes and a port
constexpr std::size_t kMaxText = 255;     // RFC 1929: one byte of length

json::string* password_of(json::object& network) {
  auto* proxy = network.if_contains("egressProxy");
  auto* object = proxy != nullptr ? proxy->if_object() : nullptr;
  auto* password = object != nullptr ? object->if_contains("password") : nullptr;
  return password != nullptr ? password->if_string() : nullptr;
}

}  // namespace

void read_egress_proxy(Fields& network, model::NetworkRules& rules) {
  auto object = network.object("egressProxy");
  if (!object) return;
  model::EgressProxy proxy;
  proxy.address = object->text("address", kMaxAddress).value_or("");
  proxy.username = object->text("username", kMaxText).value_or("");
  Secret password(object->text("password", kMaxText).value_or(""));
  if (proxy.address.empty()) object->refuse("address", "is required: host:port of a SOCKS5 proxy");
  if (proxy.username.empty() != password.empty())
    object->refuse("username", "is needed where there is a password, and the other way round");
  rules.proxy = std::move(proxy);
}

Task<Result<void>> seal_egress_proxy(Services& services, std::string tenant, json::object& network,
                                     model::NetworkRules& rules) {
  json::string* password = password_of(network);
  if (!rules.proxy || password == nullptr || password->empty()) co_return success();
  Secret quoted(json::serialize(*password));
  Secret body("{\"value\":" + quoted.reveal() + "}");
  sodium_memzero(password->data(), password->size());
  CO_TRY(auto answer,
         co_await services.vault.call("POST", std::move(tenant), "sealed/egress-proxy", std::move(body)));
  CO_TRY(json::value said, parse_json(answer.body));
  const auto* sealed = said.is_object() ? said.get_object().if_contains("sealed") : nullptr;
  if (answer.head.status != 200 || sealed == nullptr || !sealed->is_string()) {
    co_return make_error(Code::kUnavailable, "egressProxy.password: the gateway did not seal it (status {})",
                         answer.head.status)
        .with_word("gateway_unavailable");
  }
  rules.proxy->sealed_password = std::string(sealed->get_string());
  co_return success();
}

}  // namespace atl::api
