// SPDX-License-Identifier: Apache-2.0
//
// What leads out of the sandbox, seen from inside.
#pragma once

#include <cstddef>
#include <string_view>

namespace atl::guest {

// How many TCP sockets are connected to the world, or about to be, in a table of /proc/net/tcp or tcp6
// (proc_pid_net(5)): not to this sandbox's own loopback, nor to the host's end of its link (100.64.0.0/10),
// which ends such connections itself.
std::size_t outside_connections(std::string_view table);
// The same of this network namespace. Blocks. A table that cannot be read counts as one connection.
std::size_t outside_connections();

}  // namespace atl::guest
