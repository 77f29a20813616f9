// SPDX-License-Identifier: Apache-2.0
#include "guest/access.h"

#include "base/bytes.h"
#include "base/text.h"

namespace atl::guest {

std::string file_signature(std::string_view path, std::string_view operation, std::string_view user,
                           const Secret& token, std::optional<std::string_view> expiration) {
  std::string text = fmt::format("{}:{}:{}:{}", path, operation, user, token.reveal());
  if (expiration) text += fmt::format(":{}", *expiration);
  return "v1_" + base64_encode(sha256(text), Padding::kNone);
}

bool has_access(const http::Headers& headers, const Secret& token) {
  if (token.empty()) return true;
  auto given = headers.find("x-access-token");
  return given && headers.count("x-access-token") == 1 && token.matches(*given);
}

bool is_internal(const http::Headers& headers, std::string_view internal_token) {
  auto given = headers.find("x-atoll-internal");
  return given && !internal_token.empty() && headers.count("x-atoll-internal") == 1 &&
         constant_time_equal(*given, internal_token);
}

Result<void> check_file_access(const http::Headers& headers, const Query& query, std::string_view operation,
                               const Secret& token, std::int64_t now_seconds) {
  if (token.empty() || has_access(headers, token)) return success();
  if (headers.find("x-access-token")) return Error(Code::kUnauthenticated, std::string(kNoAccess));
  auto signature = http::query_value(query, "signature");
  if (!signature) return Error(Code::kUnauthenticated, "missing signature query parameter");
  auto expiration = http::query_value(query, "signature_expiration");
  std::string path = http::query_value(query, "path").value_or("");
  std::string user = http::query_value(query, "username").value_or("");
  std::string wanted = file_signature(path, operation, user, token, expiration);
  if (!constant_time_equal(*signature, wanted)) return Error(Code::kUnauthenticated, "invalid signature");
  if (!expiration) return success();
  auto until = parse_number<std::int64_t>(*expiration);
  if (!until) return Error(Code::kUnauthenticated, "invalid signature");
  if (*until < now_seconds) return Error(Code::kUnauthenticated, "signature is already expired");
  return success();
}

}  // namespace atl::guest
