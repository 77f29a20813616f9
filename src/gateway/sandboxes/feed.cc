// SPDX-License-Identifier: Apache-2.0
#include "gateway/sandboxes/feed.h"

#include "base/log.h"
#include "base/text.h"
#include "http/json.h"
#include "model/slot_address.h"

namespace atl::gateway {
namespace {

namespace json = boost::json;
using async::Task;
using http::Fields;

constexpr std::size_t kMaxBody = 64 << 20;  // a sync of all sandboxes with their policies
constexpr std::string_view kSandboxes = "/v1/sandboxes/";
constexpr std::string_view kWork = "/work";
constexpr std::int64_t kMaxNumber = INT64_MAX;

Task<Result<json::object>> read_object(http::Exchange& exchange) {
  CO_TRY(std::string text, co_await exchange.read_all(kMaxBody));
  CO_TRY(json::value value, http::parse_json(text));
  if (!value.is_object()) co_return make_error(Code::kInvalid, "body: must be an object");
  co_return std::move(value).as_object();
}

http::ResponseHead head(int status) {
  http::ResponseHead out;
  out.status = status;
  if (status != 204) out.headers.add("content-type", "application/json");
  return out;
}

}  // namespace

Result<Sandbox> Feed::read_sandbox(std::string id, const json::object& body) const {
  Fields fields(body);
  Sandbox out;
  if (!model::valid_sandbox_id(id)) fields.refuse("id", "is not the id of a sandbox");
  out.id = std::move(id);
  out.tenant = fields.text("tenant", 64).value_or("");
  if (out.tenant.empty()) fields.refuse("tenant", "is required");
  out.template_id = fields.text("template", 64).value_or("");
  auto generation = fields.integer("generation", 1, kMaxNumber);
  auto slot = fields.integer("slot", 0, model::kMaxSlots - 1);
  auto state = model::parse_state(fields.text("state", 16).value_or(""));
  if (!generation) fields.refuse("generation", "is required");
  if (!slot) fields.refuse("slot", "is required");
  if (!state) fields.refuse("state", "is not a state of a sandbox");
  auto labels = fields.texts("labels", model::kMaxLabels);
  auto network = fields.object("network");
  if (!network) fields.refuse("network", "is required");
  TRY_VOID(fields.status());
  out.generation = static_cast<std::uint64_t>(*generation);
  out.slot = static_cast<std::uint32_t>(*slot);
  out.state = *state;
  if (labels) out.labels = std::move(*labels);
  out.network = std::make_shared<const json::object>(network->raw());
  TRY(WayOut way, compile_(out));
  out.policy = std::move(way.policy);
  out.proxy = std::move(way.proxy);
  return out;
}

void Feed::compile_anew(const std::function<bool(const Sandbox&)>& about) {
  for (const SandboxPtr& known : registry_.all()) {
    if (!about(*known)) continue;
    Sandbox changed = *known;
    auto compiled = compile_(changed);
    if (!compiled)
      log::error("a sandbox has no way out", {{"id", known->id}, {"why", compiled.error().message()}});
    WayOut way = std::move(compiled).value_or(WayOut());
    changed.policy = std::move(way.policy);
    changed.proxy = std::move(way.proxy);
    registry_.put(std::move(changed));
  }
}

// A sandbox that cannot be read has no way out; the others are none the worse for it.
Result<void> Feed::sync(const json::object& body) {
  Fields fields(body);
  const json::array* list = fields.array("sandboxes");
  if (list == nullptr) fields.refuse("sandboxes", "is required");
  TRY_VOID(fields.status());
  std::vector<Sandbox> sandboxes;
  for (const json::value& entry : *list) {
    if (!entry.is_object()) return make_error(Code::kInvalid, "sandboxes: must be an array of objects");
    std::string id = Fields(entry.get_object()).text("id", 64).value_or("");
    auto sandbox = read_sandbox(id, entry.get_object());
    if (sandbox) {
      sandboxes.push_back(std::move(*sandbox));
    } else {
      log::error("a sandbox has no way out", {{"id", id}, {"why", sandbox.error().message()}});
    }
  }
  registry_.replace_all(std::move(sandboxes));
  return success();
}

Task<Result<std::string>> Feed::take(http::Exchange& exchange) {
  const http::RequestHead& request = exchange.request();
  std::string method = request.method, path(request.path());
  if (method == "POST" && path == "/v1/alive") {
    CO_TRY(auto query, http::parse_query(request.query()));
    auto have = parse_number<std::uint64_t>(http::query_value(query, "have").value_or("0"));
    if (!have) co_return make_error(Code::kInvalid, "have: a number is required");
    co_return json::serialize(news_(*have));
  }
  if (method == "POST" && path == "/v1/sync") {
    CO_TRY(json::object body, co_await read_object(exchange));
    CO_TRY_VOID(sync(body));
    co_return std::string();
  }
  if (path.starts_with(kSandboxes)) {
    std::string id = path.substr(kSandboxes.size());
    if (method == "PUT") {
      CO_TRY(json::object body, co_await read_object(exchange));
      CO_TRY(Sandbox sandbox, read_sandbox(std::move(id), body));
      HandOver hand_over = Fields(body).boolean("handOver").value_or(false) ? HandOver::kYes : HandOver::kNo;
      auto told = std::make_shared<const Sandbox>(sandbox);
      registry_.put(std::move(sandbox));
      co_return json::serialize(co_await describe_(std::move(told), hand_over));
    }
    if (method == "GET" && id.ends_with(kWork)) {
      id.resize(id.size() - kWork.size());
      co_return json::serialize(work_(id));
    }
    if (method == "DELETE") {
      CO_TRY(auto query, http::parse_query(request.query()));
      auto generation = parse_number<std::uint64_t>(http::query_value(query, "generation").value_or(""));
      if (!generation) co_return make_error(Code::kInvalid, "generation: a number is required");
      registry_.remove(id, *generation);
      co_return std::string();
    }
  }
  co_return make_error(Code::kNotFound, "{} {} is not something that control says", method, path);
}

Task<> Feed::handle(http::Exchange& exchange) {
  auto taken = co_await take(exchange);
  if (taken.ok()) {
    registry_.heard();
    int status = taken->empty() ? 204 : 200;
    (void)co_await exchange.respond(head(status), std::move(*taken));
    co_return;
  }
  int status = http_status(taken.error().code());
  (void)co_await exchange.respond(head(status), http::error_body(status, taken.error().message()));
}

}  // namespace atl::gateway
