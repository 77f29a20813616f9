// SPDX-License-Identifier: Apache-2.0
#include "gateway/approvals/approval.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/bytes.h"
#include "base/text.h"

namespace atl::gateway {
namespace {

constexpr std::array<std::string_view, 6> kNames{"pending", "approved",  "denied",
                                                 "expired", "cancelled", "used"};

// What clients and their libraries change between two tries of one request (counters, traces, dates), or what
// is for one hop only. All else may change what a request does.
constexpr std::string_view kVolatile[] = {"accept-encoding",
                                          "amz-sdk-invocation-id",
                                          "amz-sdk-request",
                                          "baggage",
                                          "connection",
                                          "content-length",
                                          "date",
                                          "expect",
                                          "keep-alive",
                                          "sec-websocket-key",
                                          "te",
                                          "traceparent",
                                          "tracestate",
                                          "user-agent",
                                          "b3",
                                          "transfer-encoding",
                                          "x-amzn-trace-id",
                                          "x-correlation-id",
                                          "x-request-id",
                                          "http2-settings"};
constexpr std::string_view kVolatileBeginnings[] = {"proxy-", "x-stainless-", "x-b3-"};

// Each part with its length before it, so that no two requests give the same text.
void add(std::string& text, std::string_view part) {
  text += fmt::format("{}:", part.size());
  text += part;
}

void put_time(boost::json::object& out, std::string_view key, const std::optional<WallTime>& time) {
  if (time) out[key] = format_rfc3339(*time);
}

void put_text(boost::json::object& out, std::string_view key, const std::string& text) {
  if (!text.empty()) out[key] = text;
}

}  // namespace

std::string_view approval_state_name(ApprovalState state) {
  return kNames.at(static_cast<std::size_t>(state));
}

std::optional<ApprovalState> parse_approval_state(std::string_view name) {
  auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<ApprovalState>(found - kNames.begin());
}

boost::json::object approval_json(const Approval& approval, Shown shown) {
  const Question& question = approval.question;
  boost::json::object out{{"approvalID", approval.id}, {"state", approval_state_name(approval.state)}};
  out["sandboxID"] = question.sandbox;
  put_text(out, "label", question.label);
  out["rule"] = question.rule;
  out["method"] = question.method;
  out["url"] = question.url;
  if (shown == Shown::kWhole) out["summary"] = question.summary;
  out["createdAt"] = format_rfc3339(approval.created_at);
  out["expiresAt"] = format_rfc3339(approval.expires_at);
  put_time(out, "decidedAt", approval.decided_at);
  put_text(out, "decidedBy", approval.decided_by);
  put_text(out, "reason", approval.reason);
  put_time(out, "endedAt", approval.ended_at);
  put_text(out, "endedBecause", approval.ended_because);
  return out;
}

bool is_bound(std::string_view header) {
  bool named = std::find(std::begin(kVolatile), std::end(kVolatile), header) != std::end(kVolatile);
  return !named && std::none_of(std::begin(kVolatileBeginnings), std::end(kVolatileBeginnings),
                                [&](std::string_view with) { return header.starts_with(with); });
}

std::string fingerprint_of(const ExactRequest& request) {
  std::string text;
  for (std::string_view part : {request.tenant, request.sandbox, request.label}) add(text, part);
  add(text, std::to_string(request.generation));
  add(text, request.secure ? "https" : "http");
  for (std::string_view part : {std::string_view(request.authority), std::string_view(request.head->method),
                                std::string_view(request.head->target)})
    add(text, part);
  add(text, sha256(request.body));
  // In the order of their names: some clients write them in any.
  std::multimap<std::string, std::string_view> fields;
  for (const http::Header& field : request.head->headers) {
    std::string name = to_lower(field.name);
    if (is_bound(name)) fields.emplace(std::move(name), field.value);
  }
  for (const auto& [name, value] : fields) {
    add(text, name);
    add(text, value);
  }
  for (const http::Header& field : request.trailers ? *request.trailers : http::Headers()) {
    add(text, "trailer " + field.name);
    add(text, field.value);
  }
  return hex_encode(sha256(text));
}

}  // namespace atl::gateway
