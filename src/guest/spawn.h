// SPDX-License-Identifier: Apache-2.0
//
// Starting one user process: its user, session, terminal or pipes, limits and directory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "guest/accounts.h"
#include "sys/fd.h"

namespace atl::guest {

// Descriptors to hand over have numbers above this, so that none is in another's place.
inline constexpr int kPassedAbove = 64;

struct TerminalSize {
  std::uint16_t columns = 80;
  std::uint16_t rows = 24;
};

// All that a new process is made from.
struct SpawnRequest {
  std::string command;  // absolute, or looked up in PATH of `environment`
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  // complete
  std::string directory;
  Identity identity;
  std::optional<TerminalSize> terminal;
  bool stdin_open = true;                // false: /dev/null
  bool no_network = false;               // nor anything that it starts (guest/no_network.h); no sudo either
  std::shared_ptr<const sys::Fd> group;  // cgroup.procs of the group that it is in; null: the daemon's
  std::uint64_t guards = 0;              // of its label (sys/label_guard.h)
  std::uint32_t open_files = 0;          // RLIMIT_NOFILE, 0 leaves it
  std::vector<int> passed;  // become descriptors 3, 4, … of the process; each is above kPassedAbove
};

// Our ends, non-blocking. A process with a terminal has only `terminal`.
struct Spawned {
  pid_t pid = -1;
  bool labelled = false;
  sys::Fd input;
  sys::Fd output;
  sys::Fd errors;
  sys::Fd terminal;
};

// Starts the process as the leader of a session of its own. Blocks until it has been executed, which may take
// long on a bad file system: use from a worker. Errors: kInvalid for what the caller asked (no such command,
// directory), kDenied, kExhausted when the sandbox has no process or descriptor left.
Result<Spawned> spawn(const SpawnRequest& request);

// As the terminal's user would by resizing a window: the foreground group gets SIGWINCH.
Result<void> set_terminal_size(int terminal, TerminalSize size);

}  // namespace atl::guest
