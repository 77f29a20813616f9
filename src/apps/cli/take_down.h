// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/cli/config.h"

namespace atl::cli {

enum class Sandboxes { kStop, kKeep };

struct DownReport {
  bool was_running = false;
  std::size_t stopped_sandboxes = 0;
  std::size_t kept_sandboxes = 0;
  std::vector<std::string> stopped_daemons;
  std::vector<std::string> leftovers;  // with kStop: what should be gone and is not
};

// Stops everything of one instance in the right order: control (no new sandboxes), the sandboxes, the runner,
// the supervisor. Works when any of them has been killed. `tell` is called with each step. Blocking; needs
// root.
Result<DownReport> take_down(const Config& config, Sandboxes sandboxes,
                             const std::function<void(const std::string&)>& tell);

}  // namespace atl::cli
