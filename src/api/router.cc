// SPDX-License-Identifier: Apache-2.0
#include "api/router.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/log.h"
#include "base/text.h"

namespace atl::api {
namespace {

constexpr std::size_t kMaxKey = 256;
constexpr Steady::duration kRefusedWithin = std::chrono::seconds(2);

bool is_param(const std::string& segment) { return segment.front() == '{'; }

std::vector<std::string> pattern_segments(std::string_view pattern) {
  std::vector<std::string> out;
  for (auto part : split(pattern.substr(1), '/')) out.emplace_back(part);
  return out;
}

// How well the pattern fits: literals count, so that "/sandboxes/metrics" is preferred to "/sandboxes/{id}".
std::optional<int> fit(const std::vector<std::string>& pattern, const std::vector<std::string_view>& path) {
  if (pattern.size() != path.size()) return std::nullopt;
  int literals = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (is_param(pattern[i])) {
      if (path[i].empty()) return std::nullopt;
    } else if (pattern[i] == path[i]) {
      ++literals;
    } else {
      return std::nullopt;
    }
  }
  return literals;
}

constexpr char kBadUrl[] = "bad_url";

Result<std::vector<std::string>> decode_params(std::vector<std::string> params) {
  for (std::string& param : params) {
    auto text = http::percent_decode(param);
    if (!text || !valid_utf8(*text))
      return make_error(Code::kInvalid, "path: bad percent-encoding").with_word(kBadUrl);
    param = std::move(*text);
  }
  return params;
}

std::string_view retry_after(const Error& error) {
  int status = http_status(error.code());
  // A build takes minutes, and nobody can say how many.
  if (error.word() == "template_building") return "5";
  if (error.word() == "template_build_failed") return "60";
  return status == 429 || status == 503 ? "1" : "";
}

}  // namespace

std::string Call::sandbox_id(std::size_t param) const {
  const std::string& text = params.at(param);
  return text.substr(0, text.find('-'));
}

Result<std::optional<std::int64_t>> Call::query_number(std::string_view key, std::int64_t min,
                                                       std::int64_t max) const {
  auto text = query_text(key);
  if (!text) return std::optional<std::int64_t>();
  auto number = parse_number<std::int64_t>(*text);
  if (!number || *number < min || *number > max) {
    return make_error(Code::kInvalid, "query {}: must be an integer from {} to {}", key, min, max)
        .with_word("invalid_field");
  }
  return std::optional<std::int64_t>(*number);
}

Answer json_answer(int status, const json::value& body) {
  Answer answer;
  answer.status = status;
  answer.body = json::serialize(body);
  return answer;
}

Answer no_content() {
  Answer answer;
  answer.status = 204;
  return answer;
}

json::object error_json(const Error& error) {
  json::object body;
  body["code"] = http_status(error.code());
  // A bug of ours is told to the log; a client learns nothing about our insides.
  bool internal = error.code() == Code::kInternal || error.code() == Code::kCorrupt;
  body["message"] = internal ? std::string("internal error") : error.message();
  body["error_code"] = std::string_view(error.word());
  if (!error.hint().empty()) body["hint"] = error.hint();
  return body;
}

Answer error_answer(const Error& error, std::optional<int> exact_status) {
  int status = exact_status.value_or(http_status(error.code()));
  json::object body = error_json(error);
  body["code"] = status;
  Answer answer = json_answer(status, body);
  if (auto after = retry_after(error); !after.empty()) answer.headers.add("retry-after", std::string(after));
  return answer;
}

Router::Router(Services& services, std::vector<Route> routes)
    : services_(services), routes_(std::move(routes)) {
  for (const Route& route : routes_) segments_.push_back(pattern_segments(route.pattern));
}

Result<control::Principal> Router::authenticate(const http::RequestHead& head) const {
  auto refuse = [](const char* message) {
    return Error(Code::kUnauthenticated, message)
        .with_hint("send an API key in the header X-API-Key; eval \"$(atoll env)\" sets one for E2B clients");
  };
  if (head.headers.count("x-api-key") > 1 || head.headers.count("authorization") > 1) {
    return refuse("more than one API key was sent");
  }
  std::string_view key;
  if (auto header = head.headers.find("x-api-key")) {
    key = trim(*header);
  } else if (auto bearer = head.headers.find("authorization");
             bearer && equals_ignore_case(bearer->substr(0, 7), "bearer ")) {
    key = trim(bearer->substr(7));
  }
  if (key.empty()) return refuse("an API key is missing");
  auto who = key.size() <= kMaxKey ? services_.identity.authenticate(key) : std::nullopt;
  if (!who) return refuse("the API key is not valid");
  return *who;
}

Router::Match Router::match(const http::RequestHead& head) const {
  Match best;
  std::string_view path = head.path();
  if (path.empty() || path.front() != '/') return best;
  auto parts = split(path.substr(1), '/');
  int best_fit = -1;
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    auto literals = fit(segments_[i], parts);
    if (!literals) continue;
    if (*literals > best_fit) {
      best_fit = *literals;
      best.route = nullptr;
      best.allowed.clear();
    }
    if (*literals < best_fit) continue;
    best.allowed += (best.allowed.empty() ? "" : ", ") + std::string(routes_[i].method);
    if (head.method != routes_[i].method) continue;
    best.route = &routes_[i];
    best.params.clear();
    for (std::size_t k = 0; k < parts.size(); ++k) {
      if (is_param(segments_[i][k])) best.params.emplace_back(parts[k]);
    }
  }
  return best;
}

Task<Result<json::value>> Router::read_body(http::Exchange& exchange, Body wanted) {
  json::object empty;
  if (wanted == Body::kNone) co_return json::value(empty);
  CO_TRY(std::string text, co_await exchange.read_all(kMaxBody));
  if (text.empty()) {
    if (wanted == Body::kOptional) co_return json::value(empty);
    co_return make_error(Code::kInvalid, "body: a JSON object is required").with_word("invalid_json");
  }
  CO_TRY(json::value value, parse_json(text));
  if (!value.is_object())
    co_return make_error(Code::kInvalid, "body: must be a JSON object").with_word("invalid_json");
  co_return value;
}

Task<Result<Answer>> Router::answer(http::Exchange& exchange) {
  const http::RequestHead& head = exchange.request();
  Match found = match(head);
  Call call;
  call.head = &head;
  if (!found.route || found.route->auth != Auth::kNone) {
    CO_TRY(call.who, authenticate(head));
  }
  if (!found.route && !found.allowed.empty()) {
    Error error = make_error(Code::kInvalid, "{} is not offered here, only {}", head.method, found.allowed);
    Answer refusal = error_answer(std::move(error).with_word("method_not_allowed"), 405);
    refusal.headers.add("allow", found.allowed);
    co_return refusal;
  }
  if (!found.route) {
    co_return make_error(Code::kNotFound, "there is no {} {}", head.method, printable(head.path()))
        .with_word("no_such_route");
  }
  if (found.route->auth == Auth::kAdmin && !call.who.admin()) {
    co_return make_error(Code::kDenied, "this needs an admin key")
        .with_hint("use a key that was made with role admin");
  }
  CO_TRY(call.params, decode_params(std::move(found.params)));
  auto query = http::parse_query(head.query());
  if (!query) co_return std::move(query).error().with_word(kBadUrl);
  call.query = std::move(*query);
  CO_TRY(call.body, co_await read_body(exchange, found.route->body));
  co_return co_await found.route->action(services_, call);
}

Task<> Router::handle(http::Exchange& exchange) {
  auto result = co_await answer(exchange);
  if (!result && http_status(result.error().code()) >= 500 && result.error().code() != Code::kUnsupported) {
    log::warn("request failed", {{"method", exchange.request().method},
                                 {"path", printable(exchange.request().path())},
                                 {"what", result.error().message()}});
  }
  Answer reply = result ? std::move(*result) : error_answer(result.error());
  http::ResponseHead head;
  head.status = reply.status;
  head.headers = std::move(reply.headers);
  if (reply.status != 204) {
    if (!head.headers.find("content-type")) head.headers.add("content-type", "application/json");
    head.headers.add("cache-control", "no-store");
  }
  auto sent = co_await exchange.respond(std::move(head), std::move(reply.body));
  if (!reply.on_undelivered) co_return;
  bool lost = !sent;
  if (!lost) lost = co_await exchange.refused(kRefusedWithin);
  if (lost) reply.on_undelivered();
}

}  // namespace atl::api
