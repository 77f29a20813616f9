// SPDX-License-Identifier: Apache-2.0
//
// Starting and ending the daemons, and finding programs. sys/process.h has the primitives.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "sys/fd.h"

namespace atl::cli {

// A pid alone may be used again by another process; with the start time it names one process until the next
// boot.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // /proc/<pid>/stat field 22
  bool operator==(const ProcessId&) const = default;
};

// Whether exactly this process runs (a zombie does not).
bool is_running(const ProcessId& id);
// SIGTERM, then after `grace` SIGKILL; returns once it is gone.
void end_process(const sys::Fd& pidfd, Millis grace);

struct SpawnOptions {
  std::string program;
  std::vector<std::string> arguments;  // without argv[0]
  std::string user;                    // becomes this user; empty: stays
  std::string log_path;                // standard output and error are appended here, mode 0640
};
// Forks and executes. Only for a single-threaded process. What goes wrong after the fork is written to the
// log, and the child ends with status 127.
Result<ProcessId> spawn_process(const SpawnOptions& options);

// Runs a program to its end with our standard streams; kInternal with its status when it fails. Blocks.
Result<void> run_program(const std::string& program, const std::vector<std::string>& arguments);
// Finds `name` in the usual system directories; empty when it is not there.
std::string find_program(const std::string& name);
// Where a daemon of Atoll is: beside our own program, or in ../libexec/atoll. kNotFound names both places.
Result<std::string> find_daemon(const std::string& name);

}  // namespace atl::cli
