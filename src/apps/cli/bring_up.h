// SPDX-License-Identifier: Apache-2.0
//
// The steps of `atoll up`. Each can be repeated: what is there already is left and said so.
#pragma once

#include <functional>
#include <string>

#include "apps/cli/config.h"
#include "apps/cli/session.h"
#include "apps/cli/supervisor.h"
#include "apps/cli/target.h"

namespace atl::cli {

// Told what each step did: "made" what was not there before, "found" what was.
using Tell = std::function<void(const std::string& line)>;

// The system users that the unprivileged daemons run as.
Result<void> ensure_user(const Config& config, const Tell& tell);
Result<void> ensure_directories(const Config& config, const Tell& tell);

enum class Foreground : bool { kNo, kYes };
struct Started {
  bool was_running = false;
  pid_t child = -1;  // of kForeground: the supervisor, our child
  Config config;     // with the ports that are in force
};
// Starts the supervisor, or finds the one that runs. Daemons that something else runs (systemd) are left to
// it. Only from a single-threaded process.
Result<Started> ensure_supervisor(const Config& config, Foreground foreground, const Tell& tell);

// Reads what control left for the first user: its address, key and certificate authority.
Result<Target> bootstrap_target(const Config& config);

// Waits until the API answers and the runner is connected. A daemon that keeps dying ends the wait with its
// name, the last lines of its log and what to do.
Task<Result<void>> wait_until_serving(Session& session, const Config& config);

}  // namespace atl::cli
