// SPDX-License-Identifier: Apache-2.0
//
// The journal: append-only, numbered without gaps among acknowledged rows, of bounded length. Call inside
// Database::run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/record.h"
#include "store/sqlite.h"

namespace atl::store {

Result<std::int64_t> append_event(Connection& db,
                                  const model::Event& event);  // its seq; event.seq is not used

struct EventQuery {
  std::string tenant;  // required, unless all_tenants
  bool all_tenants = false;
  std::string sandbox;                   // empty: any
  std::string type;                      // empty: any
  std::string search;                    // in the message
  std::optional<WallTime> since, until;  // both inclusive
  std::int64_t after = 0;
  std::size_t limit = 100;
  bool newest_first = false;  // with `before`: seq < before
  std::int64_t before = 0;
};
Result<std::vector<model::Event>> load_events(Connection& db, const EventQuery& query);
// Drops rows older than `before` and the oldest beyond `keep`; at most `limit` at a time. How many went.
Result<int> prune_events(Connection& db, WallTime before, std::size_t keep, std::size_t limit);

}  // namespace atl::store
