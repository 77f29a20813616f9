// SPDX-License-Identifier: Apache-2.0
//
// Secrets: what E2B's clients call, and bindings and authorizations of our own. The gateway's vault answers;
// here requests are checked for who asks, and passed on. No value is kept, logged or answered.
#include <sodium.h>

#include "api/e2b.h"
#include "api/page.h"
#include "api/relay.h"

namespace atl::api {
namespace {

// The text of a body for the vault. What the body held of it is overwritten.
Secret take_text(json::value& body) {
  if (!body.is_object()) return Secret();
  Secret out(json::serialize(body));
  auto* value = body.get_object().if_contains("value");
  auto* text = value != nullptr ? value->if_string() : nullptr;
  if (text != nullptr) sodium_memzero(text->data(), text->size());
  body.emplace_object();
  return out;
}

std::string secret_path(const Call& call) { return "secrets/" + http::percent_encode(call.params[0]); }

Task<Result<Answer>> relay(Services& services, std::string method, std::string tenant, std::string path,
                           Secret body) {
  CO_TRY(auto answer, co_await services.vault.call(std::move(method), std::move(tenant), std::move(path),
                                                   std::move(body)));
  co_return relayed(std::move(answer));
}

Task<Result<Answer>> create(Services& services, Call& call) {
  co_return co_await relay(services, "POST", call.tenant(), "secrets", take_text(call.body));
}

Task<Result<Answer>> update(Services& services, Call& call) {
  co_return co_await relay(services, "POST", call.tenant(), secret_path(call), take_text(call.body));
}

Task<Result<Answer>> get(Services& services, Call& call) {
  co_return co_await relay(services, "GET", call.tenant(), secret_path(call), Secret());
}

Task<Result<Answer>> remove(Services& services, Call& call) {
  co_return co_await relay(services, "DELETE", call.tenant(), secret_path(call), Secret());
}

PageEnd end_of(const json::object& secret) {
  auto created = parse_rfc3339(secret.at("createdAt").as_string());
  return {created ? created->ms : 0, std::string(secret.at("secretID").as_string())};
}

// Oldest first, in pages.
Task<Result<Answer>> list(Services& services, Call& call) {
  CO_TRY(auto limit, read_limit(call, kMaxPage, kMaxPage));
  CO_TRY(auto after, read_page(call, true));
  CO_TRY(auto answer, co_await services.vault.call("GET", call.tenant(), "secrets", Secret()));
  if (answer.head.status != 200) co_return relayed(std::move(answer));
  CO_TRY(json::value all, parse_json(answer.body));
  json::array page;
  bool more = false;
  for (auto& secret : all.as_object().at("secrets").as_array()) {
    if (after && end_of(secret.as_object()) <= *after) continue;
    more = page.size() == limit;
    if (more) break;
    page.push_back(std::move(secret));
  }
  std::string next;
  if (more) next = encode_page(end_of(page.back().as_object()), true);
  Answer out = json_answer(200, std::move(page));
  if (more) out.headers.add("x-next-token", next);
  co_return out;
}

Task<Result<Answer>> authorize(Services& services, Call& call) {
  co_return co_await relay(services, "POST", call.tenant(), secret_path(call) + "/authorization", Secret());
}

Task<Result<Answer>> finish_authorization(Services& services, Call& call) {
  auto path = secret_path(call) + "/authorization/finish";
  co_return co_await relay(services, "POST", call.tenant(), path, take_text(call.body));
}

Task<Result<Answer>> bindings(Services& services, Call& call) {
  co_return co_await relay(services, "GET", call.tenant(), "bindings", Secret());
}

Task<Result<Answer>> bind(Services& services, Call& call) {
  co_return co_await relay(services, "POST", call.tenant(), "bindings", take_text(call.body));
}

Task<Result<Answer>> unbind(Services& services, Call& call) {
  auto path = "bindings/" + http::percent_encode(call.params[0]);
  co_return co_await relay(services, "DELETE", call.tenant(), path, Secret());
}

Task<Result<Answer>> services_of(Services& services, Call& call) {
  co_return co_await relay(services, "GET", call.tenant(), "services", Secret());
}

Task<Result<Answer>> set_service(Services& services, Call& call) {
  co_return co_await relay(services, "POST", call.tenant(), "services", take_text(call.body));
}

Task<Result<Answer>> remove_service(Services& services, Call& call) {
  auto path = "services/" + http::percent_encode(call.params[0]);
  co_return co_await relay(services, "DELETE", call.tenant(), path, Secret());
}

// The vault has one key for all tenants.
Task<Result<Answer>> change_key(Services& services, Call& call) {
  co_return co_await relay(services, "POST", call.tenant(), "key", Secret());
}

}  // namespace

std::vector<Route> secret_routes() {
  return {
      {"GET", "/secrets", Auth::kKey, Body::kNone, list},
      {"POST", "/secrets", Auth::kKey, Body::kRequired, create},
      {"GET", "/secrets/{secretID}", Auth::kKey, Body::kNone, get},
      {"POST", "/secrets/{secretID}", Auth::kKey, Body::kRequired, update},
      {"DELETE", "/secrets/{secretID}", Auth::kKey, Body::kNone, remove},
      {"POST", "/v1/secrets/{secretID}/authorization", Auth::kKey, Body::kNone, authorize},
      {"POST", "/v1/secrets/{secretID}/authorization/finish", Auth::kKey, Body::kOptional,
       finish_authorization},
      {"GET", "/v1/bindings", Auth::kKey, Body::kNone, bindings},
      {"POST", "/v1/bindings", Auth::kKey, Body::kRequired, bind},
      {"DELETE", "/v1/bindings/{bindingID}", Auth::kKey, Body::kNone, unbind},
      {"POST", "/v1/vault/key", Auth::kAdmin, Body::kNone, change_key},
      {"GET", "/v1/services", Auth::kKey, Body::kNone, services_of},
      {"POST", "/v1/services", Auth::kKey, Body::kRequired, set_service},
      {"DELETE", "/v1/services/{name}", Auth::kKey, Body::kNone, remove_service},
  };
}

}  // namespace atl::api
