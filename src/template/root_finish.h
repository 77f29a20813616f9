// SPDX-License-Identifier: Apache-2.0
//
// What every template must have, whatever it came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace atl::templates {

inline constexpr char kDefaultUser[] = "user";
inline constexpr char kDefaultWorkdir[] = "/home/user";

// Completes the tree at the open directory `root`: the folders that the runner mounts on, the account `user`
// (uid 1000, or the next free one) with its home and, where sudo is installed, sudo without a password, and
// an empty /etc/machine-id. Writes only through openat2(2) below `root`, without following links. Run it in a
// jail.
Result<void> finish_root(int root);

// Adds the account to the texts of /etc/passwd and /etc/group when it is not there; returns its uid (and
// gid). Pure, for tests. `shell` is what a new account gets.
std::uint32_t ensure_account(std::string& passwd, std::string& group, std::string_view shell);

}  // namespace atl::templates
