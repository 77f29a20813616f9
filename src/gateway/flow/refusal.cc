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

}  // namespace

HttpRefusal http_refusal(int status, const policy::Refusal& refusal,
                         std::optional<std::chrono::seconds> retry_after) {
  boost::json::object body;
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

}  // namespace atl::gateway
