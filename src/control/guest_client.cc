// SPDX-License-Identifier: Apache-2.0
#include "control/guest_client.h"

#include <algorithm>

#include <boost/json.hpp>

#include "async/within.h"
#include "base/bytes.h"
#include "base/patience.h"
#include "base/random.h"
#include "base/text.h"
#include "model/guest_boot.h"
#include "net/tcp.h"

namespace atl::control {
namespace {

constexpr Steady::duration kUpLimit = std::chrono::seconds(10);
constexpr Steady::duration kStartedLimit = std::chrono::seconds(60);
constexpr Steady::duration kInternalLimit = std::chrono::seconds(10);
constexpr std::size_t kMaxAnswer = 4096;
// A pool sandbox may wait long for its tenant; its connection should still be warm then.
constexpr Steady::duration kKeepIdle = std::chrono::minutes(10);

constexpr std::uint64_t kMaxTold = 1u << 31;
constexpr std::size_t kMaxToldCommand = 256;
constexpr std::uint64_t kMaxQuiet = 1000ull * 3600 * 24 * 365;

std::string_view view_of(const model::Key32& key) {
  return std::string_view(reinterpret_cast<const char*>(key.data()), key.size());
}

std::string map_text(const model::StringMap& map) {
  std::string out = "{";
  for (const auto& [key, value] : map) {
    if (out.size() > 1) out += ',';
    out += json_quote(key) + ":" + json_quote(value);
  }
  return out + "}";
}

std::string init_body(const GuestIdentity& identity, const std::string& token) {
  std::string own = identity.known_token ? fmt::format(R"(,"internalToken":"{}")", token) : std::string();
  const EgressAnswer& gateway = identity.gateway;
  if (!gateway.authority_pem.empty()) {
    own += fmt::format(R"(,"authority":{{"pem":{},"hash":{}}})", json_quote(gateway.authority_pem),
                       json_quote(gateway.authority_hash));
  }
  if (!gateway.token.empty()) {
    own += fmt::format(R"(,"gateway":{{"token":{},"envs":{}}})", json_quote(gateway.token.reveal()),
                       map_text(gateway.environment));
  }
  if (!identity.labels.empty())
    own += R"(,"labels":)" + boost::json::serialize(boost::json::value_from(identity.labels));
  std::string environment = identity.keep_environment ? std::string(R"("keepEnvironment":true)")
                                                      : R"("envs":)" + map_text(identity.envs);
  return fmt::format(
      R"({{"sandboxId":{0},"generation":{9},"templateId":{1},"teamId":{2},{3},"accessToken":{4},)"
      R"("defaultUser":{5},"workdir":{6},"timestampMs":{7},"random":"{8}","hostname":{0}{10}}})",
      json_quote(identity.sandbox), json_quote(identity.template_id), json_quote(identity.team), environment,
      json_quote(identity.access_token.reveal()), json_quote(identity.user), json_quote(identity.workdir),
      identity.now.ms, base64_encode(view_of(random_key())), identity.generation, own);
}

std::uint64_t number_in(const boost::json::object& object, const char* key, std::uint64_t most) {
  const boost::json::value* value = object.if_contains(key);
  if (!value || !value->is_int64() || value->get_int64() < 0) return 0;
  return std::min(static_cast<std::uint64_t>(value->get_int64()), most);
}

Result<boost::json::object> parse_answer(const std::string& text) {
  boost::system::error_code failure;
  boost::json::value value = boost::json::parse(text, failure);
  if (failure || !value.is_object())
    return make_error(Code::kUnavailable, "the guest daemon's answer is no JSON object");
  return std::move(value.get_object());
}

Result<std::uint64_t> parse_outside(const std::string& text) {
  constexpr std::uint64_t kMost = 1'000'000;
  TRY(boost::json::object object, parse_answer(text));
  return number_in(object, "outside", kMost);
}

Result<GuestActivity> parse_activity(const std::string& text) {
  TRY(boost::json::object object, parse_answer(text));
  GuestActivity out;
  out.processes = static_cast<std::uint32_t>(number_in(object, "processes", kMaxTold));
  out.pid = static_cast<std::uint32_t>(number_in(object, "pid", kMaxTold));
  const boost::json::value* command = object.if_contains("command");
  if (command && command->is_string() && command->get_string().size() <= kMaxToldCommand)
    out.command = printable(std::string_view(command->get_string()));
  out.quiet = Millis(number_in(object, "quietMs", kMaxQuiet));
  return out;
}

Error unreachable(Error cause) {
  return make_error(Code::kUnavailable, "the guest daemon did not answer: {}", cause.message())
      .with_word("agent_unreachable")
      .with_hint("try again; if it happens each time, look at the template's build and at 'atoll doctor'");
}

Task<Result<net::StreamPtr>> connect_through(std::string interface) {
  net::Endpoint endpoint;
  endpoint.address = model::kGuestAddress;
  endpoint.port = model::kGuestPort;
  net::ConnectOptions options;
  options.interface = std::move(interface);
  co_return co_await net::connect_tcp(std::move(endpoint), std::move(options));
}

}  // namespace

GuestNetwork slot_network() {
  return [](const model::SandboxRow& row) -> http::Connector {
    return [interface = row.interface] { return connect_through(interface); };
  };
}

GuestClient::GuestClient(http::Connector connector, const model::Key32& internal_token)
    : token_(hex_encode(view_of(internal_token))) {
  http::ClientLimits limits;
  limits.max_idle = 1;
  limits.idle_timeout = kKeepIdle;
  client_ = http::make_client(std::move(connector), limits);
}

Task<Result<void>> GuestClient::wait_until_up() {
  http::RequestHead request;
  request.method = "GET";
  request.target = "/health";
  request.authority = "guest";
  auto answer = co_await async::within(patient(kUpLimit), "guest health",
                                       http::fetch(client_, request, std::string(), kMaxAnswer));
  if (!answer) co_return unreachable(std::move(answer).error());
  if (answer->head.status != 204) {
    co_return unreachable(make_error(Code::kUnavailable, "health answered {}", answer->head.status));
  }
  co_return success();
}

Task<Result<void>> GuestClient::wait_until_started() {
  http::RequestHead request;
  request.method = "GET";
  request.target = "/started";
  request.authority = "guest";
  request.headers.add("x-atoll-internal", token_);
  auto answer = co_await async::within(patient(kStartedLimit), "the template's start command",
                                       http::fetch(client_, request, std::string(), kMaxAnswer));
  // 404: an older guest daemon, which knows of no such thing.
  if (answer && (answer->head.status == 204 || answer->head.status == 404)) co_return success();
  std::string why = answer ? fmt::format("it answered {}", answer->head.status) : answer.error().message();
  co_return make_error(Code::kUnavailable, "the template's start command is not ready: {}", why)
      .with_word("not_ready")
      .with_hint("its own log, or its path 'ready' in /etc/atoll/start.json of the template, says more");
}

Task<Result<http::Answer>> GuestClient::call(const char* method, std::string path, std::string body,
                                             std::string token) {
  http::RequestHead request;
  request.method = method;
  request.target = std::move(path);
  request.authority = "guest";
  request.headers.add("x-atoll-internal", std::move(token));
  if (!body.empty()) {
    request.headers.add("content-type", "application/json");
    request.has_body = true;
    request.content_length = body.size();
  }
  co_return co_await async::within(patient(kInternalLimit), "guest daemon",
                                   http::fetch(client_, std::move(request), std::move(body), kMaxAnswer));
}

Task<Result<void>> GuestClient::init(GuestIdentity identity) {
  std::string body = init_body(identity, token_);
  std::string known = identity.known_token ? hex_encode(view_of(*identity.known_token)) : token_;
  auto answer = co_await call("POST", "/init", body, known);
  // It knows its own already: the answer to the first call was lost.
  constexpr int kNotForYou = 404;
  if (answer && answer->head.status == kNotForYou && known != token_) answer = co_await post("/init", body);
  if (!answer && answer.error().code() != Code::kDeadline) {
    // The kept connection may have been closed while the sandbox waited for its tenant. The call may be
    // repeated.
    client_->close_idle();
    answer = co_await call("POST", "/init", body, known);
    if (answer && answer->head.status == kNotForYou && known != token_)
      answer = co_await post("/init", std::move(body));
  }
  if (!answer) co_return unreachable(std::move(answer).error());
  if (answer->head.status != 204) {
    co_return unreachable(make_error(Code::kUnavailable, "init answered {}", answer->head.status));
  }
  co_return success();
}

Task<Result<std::uint64_t>> GuestClient::freeze(FreezeOrder order) {
  client_->close_idle();
  std::string body = fmt::format(R"({{"stop":{},"sync":{}{}}})", order.stop, order.sync,
                                 order.outside ? R"(,"outside":true)" : "");
  auto answer = co_await post("/freeze", std::move(body));
  if (!answer) co_return unreachable(std::move(answer).error());
  if (answer->head.status == 200) co_return parse_outside(answer->body);
  if (answer->head.status != 204)
    co_return unreachable(make_error(Code::kUnavailable, "freeze answered {}", answer->head.status));
  co_return 0;
}

Task<Result<GuestActivity>> GuestClient::activity() {
  auto answer = co_await call("GET", "/activity", std::string(), token_);
  if (!answer) co_return unreachable(std::move(answer).error());
  if (answer->head.status != 200)
    co_return unreachable(make_error(Code::kUnavailable, "activity answered {}", answer->head.status));
  co_return parse_activity(answer->body);
}

void GuestClient::close() { client_->close_idle(); }

}  // namespace atl::control
