// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/http_api.h"

#include <sodium.h>

#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "gateway/vault/proxy_password.h"
#include "http/json.h"

namespace atl::gateway::vault {
namespace {

namespace json = boost::json;
using http::Fields;

constexpr std::string_view kBase = "/v1/vault/";
constexpr std::size_t kMaxBody = 512 * 1024;
// As the E2B API bounds metadata.
constexpr std::size_t kMaxEntries = 32;
constexpr std::size_t kMaxEntryKey = 128;
constexpr std::size_t kMaxEntryValue = 1024;
constexpr std::size_t kMaxMetadata = 8192;
constexpr std::size_t kMaxName = 512;
constexpr std::size_t kMaxCode = 4096;

json::object secret_json(const SecretRow& row) {
  json::object out;
  out["secretID"] = row.id;
  out["name"] = row.name;
  out["currentVersion"] = row.version;
  json::object metadata;
  for (const auto& [key, value] : row.metadata) metadata[key] = value;
  out["metadata"] = std::move(metadata);
  out["createdAt"] = format_rfc3339(row.created_at);
  out["updatedAt"] = format_rfc3339(row.updated_at);
  auto config = http::parse_json(row.config);
  if (config.ok()) out["credential"] = std::move(*config);
  return out;
}

json::object binding_json(const Binding& binding) {
  json::object out = write_binding(binding);
  out["bindingID"] = binding.id;
  out["secretID"] = binding.secret;
  return out;
}

// Takes the text out of the object and wipes it there: what is left is on its way to the allocator.
Result<Locked> take_value(json::object& body) {
  auto* found = body.if_contains("value");
  auto* text = found != nullptr ? found->if_string() : nullptr;
  if (text == nullptr || text->empty()) {
    return make_error(Code::kInvalid, "value: must be a text that is not empty").with_word("invalid_field");
  }
  auto out = Locked::copy_of({text->data(), text->size()});
  sodium_memzero(text->data(), text->size());
  body.erase("value");
  return out;
}

Result<std::optional<model::StringMap>> read_metadata(Fields& fields) {
  auto map = fields.map("metadata", kMaxEntries, kMaxEntryValue);
  std::size_t total = 0;
  for (const auto& [key, value] : map.value_or(model::StringMap())) {
    total += key.size() + value.size();
    if (key.size() > kMaxEntryKey) fields.refuse("metadata", "has a key of more than 128 bytes");
  }
  if (total > kMaxMetadata) fields.refuse("metadata", "has more than 8192 bytes");
  TRY_VOID(fields.status());
  return map;
}

json::object error_json(const Error& error) {
  json::object out;
  bool ours = error.code() == Code::kInternal || error.code() == Code::kCorrupt;
  if (ours) log::error("a call of the vault failed", {{"what", error.message()}});
  out["code"] = http_status(error.code());
  out["message"] = error.message();
  out["error_code"] = std::string_view(error.word());
  if (!error.hint().empty()) out["hint"] = error.hint();
  return out;
}

Error unknown() { return make_error(Code::kNotFound, "no such call"); }

Task<Result<json::object>> read_object(http::Exchange& exchange) {
  CO_TRY(std::string text, co_await exchange.read_all(kMaxBody));
  if (text.empty()) co_return json::object();
  auto value = http::parse_json(text);
  wipe(text);
  if (!value.ok()) co_return std::move(value).error();
  if (!value->is_object()) co_return make_error(Code::kInvalid, "body: must be an object");
  co_return std::move(*value).as_object();
}

}  // namespace

bool HttpApi::takes(const http::RequestHead& request) { return request.path().starts_with(kBase); }

Task<> HttpApi::handle(http::Exchange& exchange) {
  auto reply = co_await answer(exchange);
  http::ResponseHead head;
  head.status = reply.ok() ? reply->status : http_status(reply.error().code());
  std::string body;
  if (!reply.ok()) body = json::serialize(error_json(reply.error()));
  if (reply.ok() && reply->status != 204) body = json::serialize(reply->body);
  if (!body.empty()) head.headers.add("content-type", "application/json");
  (void)co_await exchange.respond(std::move(head), std::move(body));
}

Task<Result<HttpApi::Reply>> HttpApi::answer(http::Exchange& exchange) {
  Call call;
  call.method = exchange.request().method;
  bool first = true;
  for (auto part : split(exchange.request().path().substr(kBase.size()), '/')) {
    auto decoded = http::percent_decode(part);
    if (!decoded || decoded->empty()) co_return unknown();
    if (first) call.tenant = std::move(*decoded);
    if (!first) call.path.push_back(std::move(*decoded));
    first = false;
  }
  CO_TRY(call.body, co_await read_object(exchange));
  const auto size = call.path.size();
  if (size == 0) co_return unknown();
  if (call.path[0] == "secrets" && size == 1) co_return co_await secrets(std::move(call));
  if (call.path[0] == "secrets" && size == 2) co_return co_await secret(std::move(call));
  bool authorizes =
      call.path[0] == "secrets" && size >= 3 && call.path[2] == "authorization" && call.method == "POST";
  if (authorizes && size == 3) co_return co_await authorization(std::move(call));
  if (authorizes && size == 4 && call.path[3] == "finish")
    co_return co_await finish_authorization(std::move(call));
  if (call.path[0] == "bindings" && size <= 2) co_return co_await bindings(std::move(call));
  if (call.path[0] == "key" && size == 1) co_return co_await change_key(std::move(call));
  if (call.path[0] == "sealed" && size == 2 && call.path[1] == "egress-proxy")
    co_return seal(std::move(call));
  if (call.path[0] == "services" && size <= 2) co_return co_await services(std::move(call));
  co_return unknown();
}

Task<Result<HttpApi::Reply>> HttpApi::secrets(Call call) {
  if (call.method == "POST") co_return co_await create(std::move(call));
  if (call.method != "GET") co_return unknown();
  json::array list;
  for (const auto& row : vault_.list(call.tenant)) list.push_back(secret_json(row));
  Reply reply;
  reply.body["secrets"] = std::move(list);
  co_return reply;
}

Task<Result<HttpApi::Reply>> HttpApi::create(Call call) {
  NewSecret secret;
  CO_TRY(secret.value, take_value(call.body));
  Fields fields(call.body);
  secret.name = fields.text("name", kMaxName).value_or("");
  if (auto config = fields.object("credential"); config) secret.config = config->raw();
  CO_TRY(auto metadata, read_metadata(fields));
  secret.metadata = std::move(metadata).value_or(model::StringMap());
  CO_TRY(SecretRow row, co_await vault_.create(call.tenant, std::move(secret)));
  log::info("a secret was set", {{"tenant", row.tenant}, {"secret", row.id}, {"name", row.name}});
  Reply reply;
  reply.status = 201;
  reply.body = secret_json(row);
  co_return reply;
}

Task<Result<HttpApi::Reply>> HttpApi::secret(Call call) {
  if (call.method == "POST") co_return co_await rotate(std::move(call));
  Reply reply;
  if (call.method == "GET") {
    CO_TRY(SecretRow row, vault_.info(call.tenant, call.path[1]));
    reply.body = secret_json(row);
    co_return reply;
  }
  if (call.method != "DELETE") co_return unknown();
  CO_TRY(SecretRow row, vault_.info(call.tenant, call.path[1]));
  minter_.forget(row.id);
  CO_TRY_VOID(co_await vault_.remove(call.tenant, row.id));
  log::info("a secret was removed", {{"tenant", row.tenant}, {"secret", row.id}, {"name", row.name}});
  reply.status = 204;
  co_return reply;
}

Task<Result<HttpApi::Reply>> HttpApi::rotate(Call call) {
  CO_TRY(Locked value, take_value(call.body));
  Fields fields(call.body);
  CO_TRY(auto metadata, read_metadata(fields));
  CO_TRY(SecretRow row,
         co_await vault_.rotate(call.tenant, call.path[1], std::move(value), std::move(metadata)));
  log::info("a secret has a new version",
            {{"tenant", row.tenant}, {"secret", row.id}, {"version", row.version}});
  Reply reply;
  reply.body = secret_json(row);
  co_return reply;
}

Task<Result<HttpApi::Reply>> HttpApi::authorization(Call call) {
  CO_TRY(CredentialPtr credential, vault_.use(call.tenant, call.path[1]));
  const auto* kind = std::get_if<OAuthKind>(&credential->config.kind);
  Reply reply;
  if (kind != nullptr && kind->grant == OAuthKind::Grant::kDevice) {
    CO_TRY(DeviceCode code, co_await minter_.begin_device(credential));
    reply.body["userCode"] = code.user_code;
    reply.body["url"] = code.verification_uri;
    reply.body["intervalSeconds"] = code.interval_s;
    reply.body["expiresAt"] = format_rfc3339(code.expires);
    co_return reply;
  }
  CO_TRY(auto begun, minter_.begin_authorization(credential));
  reply.body["url"] = begun.url;
  reply.body["state"] = begun.state;
  co_return reply;
}

Task<Result<HttpApi::Reply>> HttpApi::finish_authorization(Call call) {
  CO_TRY(CredentialPtr credential, vault_.use(call.tenant, call.path[1]));
  Fields fields(call.body);
  auto state = fields.text("state", kMaxName);
  auto code = fields.text("code", kMaxCode);
  CO_TRY_VOID(fields.status());
  Reply reply;
  reply.body["done"] = true;
  if (state) {
    CO_TRY_VOID(co_await minter_.finish_authorization(credential, *state, code.value_or("")));
    co_return reply;
  }
  CO_TRY(auto where, co_await minter_.poll_device(credential));
  reply.body["done"] = where == Minter::DeviceState::kDone;
  co_return reply;
}

Task<Result<HttpApi::Reply>> HttpApi::bindings(Call call) {
  Reply reply;
  if (call.path.size() == 2) {
    if (call.method != "DELETE") co_return unknown();
    CO_TRY_VOID(co_await vault_.unbind(call.tenant, call.path[1]));
    reply.status = 204;
    co_return reply;
  }
  if (call.method == "GET") {
    json::array list;
    for (const auto& binding : vault_.bindings()) {
      if (binding.tenant == call.tenant) list.push_back(binding_json(binding));
    }
    reply.body["bindings"] = std::move(list);
    co_return reply;
  }
  if (call.method != "POST") co_return unknown();
  Fields fields(call.body);
  auto secret = fields.text("secret", kMaxName).value_or("");
  if (secret.empty()) fields.refuse("secret", "is required: the id or the name of one");
  CO_TRY_VOID(fields.status());
  call.body.erase("secret");
  CO_TRY(Binding binding, parse_binding(call.body));
  binding.secret = secret;
  CO_TRY(Binding bound, co_await vault_.bind(call.tenant, std::move(binding)));
  reply.status = 201;
  reply.body = binding_json(bound);
  co_return reply;
}

Task<Result<HttpApi::Reply>> HttpApi::change_key(Call call) {
  if (call.method != "POST") co_return unknown();
  if (std::exchange(changing_key_, true))
    co_return make_error(Code::kConflict, "the master key is being changed already")
        .with_word("key_changing");
  auto changed = co_await change_key_();
  changing_key_ = false;
  CO_TRY_VOID(std::move(changed));
  log::info("the vault has a new master key", {{"fingerprint", vault_.key_fingerprint()}});
  Reply reply;
  reply.body["fingerprint"] = vault_.key_fingerprint();
  co_return reply;
}

Result<HttpApi::Reply> HttpApi::seal(Call call) {
  if (call.method != "POST") return unknown();
  TRY(Locked password, take_value(call.body));
  Reply reply;
  reply.body["sealed"] = seal_proxy_password(vault_, call.tenant, password.reveal());
  return reply;
}

Task<Result<HttpApi::Reply>> HttpApi::services(Call call) {
  Reply reply;
  if (call.path.size() == 2) {
    if (call.method != "DELETE") co_return unknown();
    CO_TRY_VOID(co_await vault_.remove_service(call.tenant, call.path[1]));
    reply.status = 204;
    co_return reply;
  }
  if (call.method == "GET") {
    json::array list;
    for (const auto& service : vault_.services(call.tenant)) list.push_back(write_service(service));
    reply.body["services"] = std::move(list);
    co_return reply;
  }
  if (call.method != "POST") co_return unknown();
  CO_TRY(Service service, parse_service(call.body));
  CO_TRY(Service set, co_await vault_.set_service(call.tenant, std::move(service)));
  log::info("a service was set", {{"tenant", set.tenant}, {"name", set.name}, {"url", set.url}});
  reply.status = 201;
  reply.body = write_service(set);
  co_return reply;
}

}  // namespace atl::gateway::vault
