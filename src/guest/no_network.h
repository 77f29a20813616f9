// SPDX-License-Identifier: Apache-2.0
//
// Commands without network: a system call filter that the process and all that it starts keep to their end.
#pragma once

#include <linux/filter.h>

namespace atl::guest {

// Refuses with EACCES every call by which a process gets a socket that leads out of it: socket(2) of any
// family (a socket of another process could hand one over), io_uring, which makes sockets past filters, and
// what reads from or writes into other processes. socketpair(2) and pipes work. Calls of another
// architecture's table are ENOSYS. Constant; may be installed by a child that shares memory.
const sock_fprog* no_network_filter();

}  // namespace atl::guest
