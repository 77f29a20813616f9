// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>

namespace atl::guest {

// Session id in the text of /proc/<pid>/stat; nullopt when malformed. The name in it may hold any byte.
std::optional<pid_t> parse_stat_session(std::string_view stat);

// Sends SIGKILL to the group of the session leader and to every other process of its session. A process that
// forks faster than the list can be read is met again in the next round; rounds are bounded.
void kill_session(pid_t leader);

}  // namespace atl::guest
