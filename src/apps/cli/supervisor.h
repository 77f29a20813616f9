// SPDX-License-Identifier: Apache-2.0
//
// Supervisor: keeps the daemons of one instance running. A small single-threaded loop without network: it
// starts processes, restarts them with back-off when they die, rotates their logs, and stops them in order.
//
// It may be killed at any time: the daemons go on, and the next supervisor takes them over by pid and start
// time.
#pragma once

#include <signal.h>

#include <optional>
#include <string>
#include <vector>

#include "apps/cli/process.h"
#include "base/clock.h"

namespace atl::cli {

struct DaemonSpec {
  std::string name;  // "runner"
  std::string program;
  std::vector<std::string> arguments;
  std::string user;          // empty: root
  std::string ready_socket;  // the next daemon starts once this unix socket takes connections; empty: at once
  std::string log_path;
};

// Work that somebody asks for by a file with one of these names in `folder`; nobody reads what is in it. The
// program does it, takes the file away, and ends.
struct ErrandSpec {
  std::string name;  // "builder"
  std::string program;
  std::vector<std::string> arguments;
  std::string log_path;
  std::string folder;  // may belong to an unprivileged user
  std::vector<std::string> names;
};
// Whether `folder` is a folder and has a plain file `name`. Follows no link.
bool is_asked_for(const std::string& folder, const std::string& name);

// What the supervisor tells the world, as a file of JSON in the run directory.
struct DaemonState {
  std::string name;
  ProcessId process;  // pid 0: not running now
  unsigned restarts = 0;
  WallTime since;  // of the last start
};
struct SupervisorState {
  ProcessId process;
  std::vector<std::string> listen;  // where control serves
  std::uint32_t slot_first = 0;     // of the runner
  std::uint32_t slot_count = 0;
  std::vector<std::string> flags;  // the whole configuration, as config_flags() writes it
  std::vector<DaemonState> daemons;
};
std::string supervisor_state_path(const std::string& run_dir);
std::string state_json(const SupervisorState& state);
Result<SupervisorState> parse_state(std::string_view text);
// kNotFound when no supervisor has run here since boot.
Result<SupervisorState> load_state(const std::string& run_dir);

// Delay before the next start after `deaths` in a row: 100 ms, doubled each time, at most 10 s.
Millis restart_delay(unsigned deaths);

// Signals that the supervisor obeys.
inline constexpr int kStopAll = SIGTERM;  // stop the daemons in reverse order, then end
inline constexpr int kHoldControl =
    SIGUSR1;  // stop the last daemon and do not start it again: `atoll down` works on

struct SupervisorOptions {
  std::string run_dir;
  SupervisorState told;             // what is only told on in the state: addresses, slots, flags
  std::vector<DaemonSpec> daemons;  // in the order of starting
  std::optional<ErrandSpec> errand = std::nullopt;
};
// Runs until told to stop. kConflict when another supervisor holds the run directory.
Result<void> supervise(const SupervisorOptions& options);

}  // namespace atl::cli
