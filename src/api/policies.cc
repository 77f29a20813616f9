// SPDX-License-Identifier: Apache-2.0
//
// Policies: rules of tenants and templates, which the gateway keeps and enforces, and what is in force for a
// sandbox. Here requests are checked for who asks and about whom, and passed on.
#include <algorithm>

#include "api/e2b.h"
#include "api/relay.h"
#include "base/text.h"

namespace atl::api {
namespace {

const model::Tenant* find_tenant(const Services& services, std::string_view name_or_id) {
  if (const auto* found = services.identity.find_tenant(name_or_id)) return found;
  for (const auto& tenant : services.identity.tenants()) {
    if (tenant.name == name_or_id) return services.identity.find_tenant(tenant.id);
  }
  return nullptr;
}

// Templates of all tenants: the admin's own come first where a name is not the only one.
const model::Template* find_template(const Services& services, const Call& call,
                                     std::string_view name_or_id) {
  if (const auto* found = services.catalog.find(call.tenant(), name_or_id)) return found;
  for (const auto& [id, row] : services.catalog.all()) {
    if (id == name_or_id || row.alias == name_or_id) return &row;
  }
  return nullptr;
}

// "/tenant/<id>": the gateway knows nobody's names. The set of somebody who is gone can be removed by id.
Result<std::string> path_of(const Services& services, const Call& call) {
  const std::string &author = call.params[0], &name = call.params[1];
  std::string id = call.head->method == "DELETE" ? name : std::string();
  if (author == "tenant") {
    if (const auto* tenant = find_tenant(services, name)) id = tenant->id;
  } else if (author == "template") {
    if (const auto* row = find_template(services, call, name)) id = row->id;
  } else {
    return make_error(Code::kInvalid, "rules are of a tenant or a template, not of '{}'", printable(author))
        .with_word("invalid_field")
        .with_hint("those of the operator are in a file: gateway.rules in atoll.toml");
  }
  if (id.empty()) return make_error(Code::kNotFound, "there is no {} '{}'", author, printable(name));
  bool trial = call.query_text("trial") == "true";
  return fmt::format("/{}/{}{}", author, http::percent_encode(id), trial ? "?trial=true" : "");
}

Task<Result<Answer>> relay(Services& services, Call& call, std::string method, std::string body) {
  CO_TRY(std::string path, path_of(services, call));
  CO_TRY(auto answer, co_await services.vault.rules(std::move(method), std::move(path), std::move(body)));
  co_return relayed(std::move(answer));
}

Task<Result<Answer>> get(Services& services, Call& call) {
  co_return co_await relay(services, call, "GET", std::string());
}

Task<Result<Answer>> put(Services& services, Call& call) {
  co_return co_await relay(services, call, "PUT", json::serialize(call.body));
}

Task<Result<Answer>> remove(Services& services, Call& call) {
  co_return co_await relay(services, call, "DELETE", std::string());
}

// With the names that people know beside the ids.
Task<Result<Answer>> list(Services& services, Call&) {
  CO_TRY(auto answer, co_await services.vault.rules("GET", std::string(), std::string()));
  if (answer.head.status != 200) co_return relayed(std::move(answer));
  CO_TRY(json::value all, parse_json(answer.body));
  for (auto& one : all.as_object().at("policies").as_array()) {
    json::object& row = one.as_object();
    std::string id(row.at("name").as_string());
    row["id"] = id;
    if (row.at("author") == "tenant") {
      if (const auto* tenant = services.identity.find_tenant(id)) row["name"] = tenant->name;
    } else if (services.catalog.all().contains(id)) {
      row["name"] = services.catalog.all().at(id).alias;
    }
  }
  co_return json_answer(200, all);
}

Task<Result<Answer>> of_sandbox(Services& services, Call& call, std::string method, std::string body) {
  std::string id = call.sandbox_id();
  CO_TRY_VOID(services.sandboxes.get(call.tenant(), id));
  std::string path = "/sandbox/" + id;
  CO_TRY(auto answer, co_await services.vault.rules(std::move(method), std::move(path), std::move(body)));
  co_return relayed(std::move(answer));
}

Task<Result<Answer>> in_force(Services& services, Call& call) {
  co_return co_await of_sandbox(services, call, "GET", std::string());
}

Task<Result<Answer>> try_out(Services& services, Call& call) {
  co_return co_await of_sandbox(services, call, "POST", json::serialize(call.body));
}

}  // namespace

std::vector<Route> policy_routes() {
  return {
      {"GET", "/v1/policies", Auth::kAdmin, Body::kNone, list},
      {"GET", "/v1/policies/{author}/{name}", Auth::kAdmin, Body::kNone, get},
      {"PUT", "/v1/policies/{author}/{name}", Auth::kAdmin, Body::kRequired, put},
      {"DELETE", "/v1/policies/{author}/{name}", Auth::kAdmin, Body::kNone, remove},
      {"GET", "/v1/sandboxes/{sandboxID}/policy", Auth::kKey, Body::kNone, in_force},
      {"POST", "/v1/sandboxes/{sandboxID}/policy", Auth::kKey, Body::kRequired, try_out},
  };
}

}  // namespace atl::api
