// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace atl::escape {

// What the harness runs inside a sandbox beside the probes. Exit status of the process; 2 for an unknown
// verb.
//   posture                  prints, as one JSON line, what only a process itself can see: securebits,
//   dumpable, ... hold TEXT                keeps TEXT in memory, dumpable, and sleeps: a victim whose memory
//   may be looked for serve-abstract NAME      listens on an abstract unix socket and prints "hit" for each
//   connection serve-tcp ADDRESS PORT TEXT  answers each connection with an HTTP response whose body is TEXT
//   threads N                starts N threads and sleeps, for the posture of every thread
int run_helper(std::string_view verb, const std::vector<std::string>& arguments);

}  // namespace atl::escape
