// SPDX-License-Identifier: Apache-2.0
//
// Approvals: requests of the tenant's sandboxes that a person must approve. The gateway keeps them and holds
// the requests; here it is checked who asks and decides, and passed on. A sandbox's token is no key of this
// API.
#include <algorithm>

#include "api/e2b.h"
#include "api/relay.h"

namespace atl::api {
namespace {

// Who decides, for people: the key's name and its id.
std::string name_of(const Services& services, const control::Principal& who) {
  auto keys = services.identity.keys(who.tenant);
  auto found = std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.id == who.key; });
  return found == keys.end() || found->name.empty() ? who.key : fmt::format("{} ({})", found->name, who.key);
}

Task<Result<Answer>> list(Services& services, Call& call) {
  std::string path;
  for (const char* key : {"state", "sandbox", "limit"}) {
    auto value = call.query_text(key);
    if (value) path += fmt::format("{}{}={}", path.empty() ? '?' : '&', key, http::percent_encode(*value));
  }
  CO_TRY(auto answer, co_await services.vault.approvals("GET", call.tenant(), path, std::string()));
  co_return relayed(std::move(answer));
}

Task<Result<Answer>> get(Services& services, Call& call) {
  std::string path = "/" + http::percent_encode(call.params[0]);
  CO_TRY(auto answer, co_await services.vault.approvals("GET", call.tenant(), path, std::string()));
  co_return relayed(std::move(answer));
}

Task<Result<Answer>> decide(Services& services, Call& call) {
  std::string by = http::percent_encode(name_of(services, call.who));
  std::string path = fmt::format("/{}?by={}", http::percent_encode(call.params[0]), by);
  std::string body = json::serialize(call.body);
  CO_TRY(auto answer, co_await services.vault.approvals("POST", call.tenant(), path, body));
  co_return relayed(std::move(answer));
}

}  // namespace

std::vector<Route> approval_routes() {
  return {
      {"GET", "/v1/approvals", Auth::kKey, Body::kNone, list},
      {"GET", "/v1/approvals/{approvalID}", Auth::kKey, Body::kNone, get},
      {"POST", "/v1/approvals/{approvalID}", Auth::kKey, Body::kRequired, decide},
  };
}

}  // namespace atl::api
