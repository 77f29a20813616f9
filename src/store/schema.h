// SPDX-License-Identifier: Apache-2.0
//
// Schema versions: numbered migrations, each applied in one transaction together with its version number.
#pragma once

#include <vector>

#include "store/sqlite.h"

namespace atl::store {

struct Migration {
  const char* name;  // "0001_initial"
  const char* sql;
};
// The migrations of this program, in order; the version of a database is how many it has had.
std::vector<Migration> migrations();

// Brings the database to the newest of `steps`. An interrupted step leaves nothing and is repeated at the
// next call. kUnsupported when the database is newer than this program; kCorrupt when it is not one of Atoll.
Result<void> migrate(Connection& connection, const std::vector<Migration>& steps);

}  // namespace atl::store
