// SPDX-License-Identifier: Apache-2.0
//
// The E2B surface for sandboxes: create, connect, pause, get, timeout, refresh, kill, network, metrics.
#include "api/create_request.h"
#include "api/e2b.h"
#include "api/egress_proxy.h"
#include "api/shapes.h"
#include "base/fault.h"
#include "base/text.h"

namespace atl::api {
namespace {

constexpr std::size_t kMaxBatch = 100;
constexpr Millis kConnectDefault = std::chrono::seconds(300);
constexpr Millis kResumeDefault = std::chrono::seconds(15);
constexpr std::int64_t kRefreshMost = 3600;
constexpr std::int64_t kRefreshDefault = 15;

Millis max_timeout(const Services& services) { return services.sandboxes.options().max_timeout; }

Task<Result<Answer>> create(Services& services, Call& call, Generation generation) {
  CO_TRY(auto spec, read_create(max_timeout(services), call, generation));
  CO_TRY_VOID(check_gateway(services.sandboxes, spec.network));
  json::value* network = call.body.get_object().if_contains("network");
  if (spec.network.proxy && network != nullptr)
    CO_TRY_VOID(co_await seal_egress_proxy(services, call.tenant(), network->get_object(), spec.network));
  CO_TRY(auto row, co_await services.sandboxes.create(std::move(spec)));
  FAULT("create.answered");
  Answer answer = json_answer(201, sandbox_created(services.config, *row));
  // Nobody knows its id, so nobody could ever end it.
  answer.on_undelivered = [&services, id = row->id] { services.sandboxes.abandon(id); };
  co_return answer;
}

Task<Result<Answer>> create_v1(Services& services, Call& call) {
  return create(services, call, Generation::kV1);
}
Task<Result<Answer>> create_v2(Services& services, Call& call) {
  return create(services, call, Generation::kV2);
}

Task<Result<Answer>> get(Services& services, Call& call) {
  CO_TRY(auto row, services.sandboxes.get(call.tenant(), call.sandbox_id()));
  json::object out = sandbox_detail(services.config, *row);
  out["activity"] = activity_json(services.sandboxes.wakefulness(row->id));
  co_return json_answer(200, out);
}

using Memory = control::SandboxService::Memory;

Memory read_memory(Fields& body) {
  return body.boolean("memory").value_or(true) ? Memory::kKeep : Memory::kLose;
}

Task<Result<Answer>> pause(Services& services, Call& call) {
  Fields body(call.body.get_object());
  Memory memory = read_memory(body);
  CO_TRY_VOID(body.status());
  CO_TRY_VOID(co_await services.sandboxes.pause(call.tenant(), call.sandbox_id(), memory));
  FAULT("pause.answered");
  co_return no_content();
}

// 200 when it ran already, 201 when it was resumed.
Task<Result<Answer>> connect(Services& services, Call& call, Generation generation) {
  Fields body(call.body.get_object());
  auto timeout = read_timeout(max_timeout(services), body, 0);
  if (!timeout && generation == Generation::kV1) body.refuse("timeout", "is required");
  Memory memory = read_memory(body);
  CO_TRY_VOID(body.status());
  Millis wanted = timeout.value_or(kConnectDefault);
  CO_TRY(auto connected,
         co_await services.sandboxes.connect(call.tenant(), call.sandbox_id(), wanted, memory));
  FAULT("connect.answered");
  co_return json_answer(connected.resumed ? 201 : 200, sandbox_created(services.config, *connected.row));
}

Task<Result<Answer>> connect_v1(Services& services, Call& call) {
  return connect(services, call, Generation::kV1);
}
Task<Result<Answer>> connect_v2(Services& services, Call& call) {
  return connect(services, call, Generation::kV2);
}

Task<Result<Answer>> resume(Services& services, Call& call) {
  Fields body(call.body.get_object());
  Millis timeout = read_timeout(max_timeout(services), body, 0).value_or(kResumeDefault);
  (void)body.boolean("autoPause");  // the setting of create persists
  CO_TRY_VOID(body.status());
  CO_TRY(auto row, services.sandboxes.get(call.tenant(), call.sandbox_id()));
  if (row->state == model::State::kRunning) {
    co_return make_error(Code::kConflict, "sandbox '{}' is running already", row->id)
        .with_hint("use connect");
  }
  CO_TRY(auto connected,
         co_await services.sandboxes.connect(call.tenant(), call.sandbox_id(), timeout, Memory::kKeep));
  co_return json_answer(201, sandbox_created(services.config, *connected.row));
}

Task<Result<Answer>> set_timeout(Services& services, Call& call) {
  Fields body(call.body.get_object());
  auto timeout = read_timeout(max_timeout(services), body, 0);
  if (!timeout) body.refuse("timeout", "is required");
  CO_TRY_VOID(body.status());
  CO_TRY_VOID(co_await services.sandboxes.set_timeout(call.tenant(), call.sandbox_id(), *timeout,
                                                      control::SandboxService::Extend::kReplace));
  co_return no_content();
}

Task<Result<Answer>> refresh(Services& services, Call& call) {
  Fields body(call.body.get_object());
  auto seconds = body.integer("duration", 0, kRefreshMost);
  CO_TRY_VOID(body.status());
  CO_TRY_VOID(co_await services.sandboxes.set_timeout(call.tenant(), call.sandbox_id(),
                                                      Millis(seconds.value_or(kRefreshDefault) * 1000),
                                                      control::SandboxService::Extend::kExtendOnly));
  co_return no_content();
}

Task<Result<Answer>> kill(Services& services, Call& call) {
  CO_TRY_VOID(co_await services.sandboxes.kill(call.tenant(), call.sandbox_id()));
  FAULT("kill.answered");
  co_return no_content();
}

Task<Result<Answer>> network(Services& services, Call& call) {
  CO_TRY_VOID(services.sandboxes.get(call.tenant(), call.sandbox_id()));
  CO_TRY(auto rules, read_network_update(call));
  CO_TRY_VOID(check_gateway(services.sandboxes, rules));
  CO_TRY_VOID(co_await seal_egress_proxy(services, call.tenant(), call.body.get_object(), rules));
  CO_TRY_VOID(co_await services.sandboxes.set_network(call.tenant(), call.sandbox_id(), std::move(rules)));
  co_return no_content();
}

Task<Result<Answer>> metrics(Services& services, Call& call) {
  CO_TRY(auto row, services.sandboxes.get(call.tenant(), call.sandbox_id()));
  CO_TRY(auto start, call.query_number("start", 0, INT64_MAX / 1000));
  CO_TRY(auto end, call.query_number("end", 0, INT64_MAX / 1000));
  if (start && end && *start > *end) {
    co_return make_error(Code::kInvalid, "query start: must not be after end").with_word("invalid_field");
  }
  CO_TRY(auto samples, services.sandboxes.metrics(call.tenant(), call.sandbox_id()));
  json::array out;
  for (const auto& sample : samples) {
    std::int64_t second = sample.at.ms / 1000;
    if ((!start || second >= *start) && (!end || second <= *end)) out.push_back(metric(sample, *row));
  }
  co_return json_answer(200, out);
}

Task<Result<Answer>> metrics_batch(Services& services, Call& call) {
  auto ids = call.query_text("sandbox_ids");
  if (!ids || ids->empty()) {
    co_return make_error(Code::kInvalid, "query sandbox_ids: is required").with_word("invalid_field");
  }
  auto list = split(*ids, ',');
  if (list.size() > kMaxBatch) {
    co_return make_error(Code::kInvalid, "query sandbox_ids: at most {} ids", kMaxBatch)
        .with_word("invalid_field");
  }
  json::object latest;
  for (auto text : list) {
    std::string id(text);
    auto row = services.sandboxes.get(call.tenant(), id);
    auto samples = services.sandboxes.metrics(call.tenant(), id);
    if (row && samples && !samples->empty()) latest[id] = metric(samples->back(), **row);
  }
  json::object out;
  out["sandboxes"] = std::move(latest);
  co_return json_answer(200, out);
}

Task<Result<Answer>> health(Services&, Call&) { co_return no_content(); }

}  // namespace

std::vector<Route> e2b_sandbox_routes() {
  return {
      {"GET", "/health", Auth::kNone, Body::kNone, health},
      {"POST", "/sandboxes", Auth::kKey, Body::kRequired, create_v1},
      {"POST", "/v2/sandboxes", Auth::kKey, Body::kRequired, create_v2},
      {"GET", "/sandboxes/{sandboxID}", Auth::kKey, Body::kNone, get},
      {"DELETE", "/sandboxes/{sandboxID}", Auth::kKey, Body::kNone, kill},
      {"POST", "/sandboxes/{sandboxID}/connect", Auth::kKey, Body::kRequired, connect_v1},
      {"POST", "/v2/sandboxes/{sandboxID}/connect", Auth::kKey, Body::kOptional, connect_v2},
      {"POST", "/sandboxes/{sandboxID}/pause", Auth::kKey, Body::kOptional, pause},
      {"POST", "/sandboxes/{sandboxID}/resume", Auth::kKey, Body::kOptional, resume},
      {"POST", "/sandboxes/{sandboxID}/timeout", Auth::kKey, Body::kRequired, set_timeout},
      {"POST", "/sandboxes/{sandboxID}/refreshes", Auth::kKey, Body::kOptional, refresh},
      {"PUT", "/sandboxes/{sandboxID}/network", Auth::kKey, Body::kRequired, network},
      {"GET", "/sandboxes/{sandboxID}/metrics", Auth::kKey, Body::kNone, metrics},
      {"GET", "/sandboxes/metrics", Auth::kKey, Body::kNone, metrics_batch},
  };
}

}  // namespace atl::api
