// SPDX-License-Identifier: Apache-2.0
//
// Requests that people write down to see what a policy would do with them, and the answer as text.
#pragma once

#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "gateway/policy/policy.h"

namespace atl::gateway::policy {

// A request as a value. The sandbox need not exist.
struct WrittenRequest {
  std::string method;
  Authority authority;
  bool secure = false;
  std::string path;
  std::string query;
  std::string label;
  std::optional<IpAddress> address;  // that the name resolves to
  http::Headers headers;
  std::optional<std::string> body;
  std::int64_t unix_seconds = 0;
};

// "GET", "https://api.example/v1?x=1". kInvalid when it is no URL of http or https with nothing but host,
// port, path, query.
Result<WrittenRequest> read_written_request(std::string_view method, std::string_view url);

// Views of it; `request` must outlive them.
RequestFacts facts_of(const WrittenRequest& request);

// {"connection", "verdict", "rule", "reason", "hint", "credentials", "setHeaders", ..., "rules": [...]}
boost::json::object to_json(const ConnectionDecision& connection, const Explanation& explanation);

std::string_view way_name(ConnectionDecision::Way way);           // "inspect"
std::string_view verdict_name(RequestDecision::Verdict verdict);  // "allow"

}  // namespace atl::gateway::policy
