// SPDX-License-Identifier: Apache-2.0
//
// The work behind the filesystem RPCs. Everything here blocks on the disk: use from a worker. Paths are
// normal (normal_path); rights are those of `user`, see with_rights.
#pragma once

#include <string>

#include "guest/accounts.h"
#include "guest/entry.h"

namespace atl::guest {

Result<Entry> stat_path(const User& user, const std::string& path);
// kExists when the directory is there already, kInvalid when a file is. Makes missing parents.
Result<Entry> make_directory(const User& user, const std::string& path);
// Makes missing parents of `destination`, and replaces a file that is there.
Result<Entry> move_path(const User& user, const std::string& source, const std::string& destination);
// Removes a file or a whole tree, never following a link. A path that does not exist is fine.
Result<void> remove_path(const User& user, const std::string& path);
// The JSON array of the entries down to `depth` levels, in the order of their paths. Subdirectories that are
// links are listed and not entered.
Result<std::string> list_json(const User& user, const Accounts& accounts, const std::string& path,
                              std::size_t depth);

}  // namespace atl::guest
