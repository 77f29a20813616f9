// SPDX-License-Identifier: Apache-2.0
//
// Pages of lists: `limit` and `nextToken` of a query, and the x-next-token of an answer.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "api/router.h"

namespace atl::api {

inline constexpr std::int64_t kMaxPage = 100;

// Where a page ended: a time in ms and an id, as one opaque token bound to the order of the list.
using PageEnd = std::pair<std::int64_t, std::string>;
std::string encode_page(const PageEnd& end, bool ascending);
Result<std::optional<PageEnd>> read_page(const Call& call,
                                         bool ascending);  // kInvalid when it is not one of ours
Result<std::size_t> read_limit(const Call& call, std::int64_t fallback, std::int64_t most);

}  // namespace atl::api
