// SPDX-License-Identifier: Apache-2.0
//
// Approval: one request that a person is asked about, and what became of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "base/clock.h"
#include "http/message.h"

namespace atl::gateway {

// kPending and kApproved are open; the others are ends. They are never taken for one another: that nobody
// decided in time is no denial, and that the question was taken back is neither.
enum class ApprovalState : std::uint8_t { kPending, kApproved, kDenied, kExpired, kCancelled, kUsed };
std::string_view approval_state_name(ApprovalState state);  // "pending"
std::optional<ApprovalState> parse_approval_state(std::string_view name);

// What a person is asked. The fingerprint stands for the exact request of this sandbox in this generation.
struct Question {
  std::string tenant;
  std::string sandbox;
  std::uint64_t generation = 0;
  std::string label;  // of the process; empty when it has none
  std::string rule;   // that asks
  std::string fingerprint;
  std::string method;
  std::string url;      // for people: redacted, cut
  std::string summary;  // for people: redacted, cut, several lines
  Millis lasts{0};      // the question, and then the answer
};

// One question and its answer, as they are on disk.
struct Approval {
  std::string id;
  Question question;
  ApprovalState state = ApprovalState::kPending;
  WallTime created_at;
  WallTime expires_at;                 // when open: until then; when denied: until then it holds
  std::optional<WallTime> decided_at;  // by a person
  std::string decided_by;
  std::string reason;  // of the person
  std::optional<WallTime> ended_at;
  std::string ended_because;  // where no person ended it
};

// As the API tells it; the summary only when it is wanted whole.
enum class Shown : bool { kShort, kWhole };
boost::json::object approval_json(const Approval& approval, Shown shown);

// A request as it is about to go out, as far as an approval is bound to it.
struct ExactRequest {
  std::string_view tenant, sandbox;
  std::uint64_t generation = 0;
  std::string_view label;
  bool secure = false;
  std::string authority;  // "api.example:443"
  const http::RequestHead* head = nullptr;
  std::string_view body;
  const http::Headers* trailers = nullptr;
};
// SHA-256, hexadecimal: of who asks, the method, the authority, path and query as they were spelled, the body
// and its trailers, and all header fields but those that differ from one try of a client to the next.
std::string fingerprint_of(const ExactRequest& request);

// Whether an approval is bound to a header field of this lower-case name.
bool is_bound(std::string_view header);

}  // namespace atl::gateway
