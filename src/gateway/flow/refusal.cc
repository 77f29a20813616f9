// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/refusal.h"

#include <boost/json.hpp>

namespace atl::gateway {
namespace {

constexpr int kUnavailable = 503;

// One line for a header: no control characters.
std::string one_line(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return out;
}

HttpRefusal made(int status, const policy::Refusal& refusal, std::optional<std::chrono::seconds> retry_after,
                 boost::json::object body) {
  body["code"] = status;
  body["message"] = refusal.reason;
  body["rule"] = refusal.rule;
  if (!refusal.hint.empty()) body["hint"] = refusal.hint;
  HttpRefusal out;
  out.head.status = status;
  out.head.headers.add("content-type", "application/json");
  out.head.headers.add("x-atoll-rule", one_line(refusal.rule));
  if (status == kUnavailable && !retry_after) retry_after = std::chrono::seconds(1);
  out.head.headers.add("x-should-retry", retry_after ? "true" : "false");
  if (retry_after) out.head.headers.add("retry-after", fmt::format("{}", retry_after->count()));
  out.body = boost::json::serialize(body) + "\n";
  return out;
}

// What the program inside is told.
policy::Refusal told(const Approval& approval) {
  std::string until = format_rfc3339(approval.expires_at);
  std::string why = approval.reason.empty() ? std::string() : ": " + approval.reason;
  const std::string anew = "send the request again to ask anew";
  const std::string& rule = approval.question.rule;
  switch (approval.state) {
    case ApprovalState::kPending:
      return {
          rule, "a person must approve this request, and has not decided yet",
          fmt::format("send the very same request again: it waits for {}, or uses it once it is approved, "
                      "until {}",
                      approval.id, until)};
    case ApprovalState::kDenied:
      return {rule, "a person has denied this request" + why,
              fmt::format("do not send it again: the denial holds until {}", until)};
    case ApprovalState::kCancelled:
      return {rule, "the question whether this request may go out was taken back: " + approval.ended_because,
              anew};
    case ApprovalState::kUsed:
      return {rule, "the approval was used by another request that was the same", anew};
    case ApprovalState::kApproved:
    case ApprovalState::kExpired: break;
  }
  return {rule, "the time in which this request could be approved and sent is over, and nobody has denied it",
          anew};
}

}  // namespace

HttpRefusal http_refusal(int status, const policy::Refusal& refusal,
                         std::optional<std::chrono::seconds> retry_after) {
  return made(status, refusal, retry_after, {});
}

HttpRefusal approval_refusal(int status, const Approval& approval) {
  bool late = approval.state == ApprovalState::kApproved;  // and was not used in time
  std::string_view state = approval_state_name(late ? ApprovalState::kExpired : approval.state);
  boost::json::object body{{"error_code", fmt::format("approval_{}", state)}};
  body["approval"] = boost::json::object{
      {"id", approval.id}, {"state", state}, {"expiresAt", format_rfc3339(approval.expires_at)}};
  HttpRefusal out = made(status, told(approval), std::nullopt, std::move(body));
  out.head.headers.add("x-atoll-approval", approval.id);
  return out;
}

}  // namespace atl::gateway
