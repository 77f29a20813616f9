// SPDX-License-Identifier: Apache-2.0
#include "gateway/approvals/approval.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"

namespace atl::gateway {
namespace {

constexpr std::array<std::string_view, 6> kNames{"pending", "approved",  "denied",
                                                 "expired", "cancelled", "used"};

// Other fields differ from one try of a client to the next (counters of retries, traces, dates), and a retry
// must find its approval.
constexpr std::array<std::string_view, 7> kMeaning{
    "content-encoding",       "content-type",      "upgrade",       "x-http-method",
    "x-http-method-override", "x-method-override", "x-original-url"};

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

bool changes_meaning(std::string_view header) {
  return std::find(kMeaning.begin(), kMeaning.end(), header) != kMeaning.end();
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
  for (const http::Header& field : request.head->headers) {
    if (!changes_meaning(field.name)) continue;
    add(text, field.name);
    add(text, field.value);
  }
  for (const http::Header& field : request.trailers ? *request.trailers : http::Headers()) {
    add(text, "trailer " + field.name);
    add(text, field.value);
  }
  return hex_encode(sha256(text));
}

}  // namespace atl::gateway
