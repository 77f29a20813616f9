// SPDX-License-Identifier: Apache-2.0
#include "api/page.h"

#include "base/bytes.h"
#include "base/text.h"

namespace atl::api {

std::string encode_page(const PageEnd& end, bool ascending) {
  return base64url_encode(fmt::format("{}__{}__{}", end.first, end.second, ascending ? "asc" : "desc"));
}

Result<std::optional<PageEnd>> read_page(const Call& call, bool ascending) {
  auto token = call.query_text("nextToken");
  if (!token || token->empty()) return std::optional<PageEnd>();
  Error wrong = make_error(Code::kInvalid, "query nextToken: is not from an answer to this query")
                    .with_word("invalid_field");
  auto text = token->size() <= 256 ? base64url_decode(*token) : std::nullopt;
  if (!text) return wrong;
  std::size_t first = text->find("__");
  std::size_t last = text->rfind("__");
  if (first == std::string::npos || last <= first + 2) return wrong;
  auto at = parse_number<std::int64_t>(text->substr(0, first));
  if (!at || text->substr(last + 2) != (ascending ? "asc" : "desc")) return wrong;
  return std::optional<PageEnd>(PageEnd(*at, text->substr(first + 2, last - first - 2)));
}

Result<std::size_t> read_limit(const Call& call, std::int64_t fallback, std::int64_t most) {
  TRY(auto limit, call.query_number("limit", 1, most));
  return static_cast<std::size_t>(limit.value_or(fallback));
}

}  // namespace atl::api
