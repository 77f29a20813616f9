// SPDX-License-Identifier: Apache-2.0
//
// What `atoll doctor` looks at. A probe does the thing it asks about, in a child that is thrown away where it
// would change something, and never trusts a version or the presence of a file.
#pragma once

#include <string>
#include <vector>

#include <boost/json/value.hpp>

#include "apps/cli/config.h"

namespace atl::cli {

struct Finding {
  enum class State { kOk, kWarning, kFailed, kSkipped };
  std::string name;  // "overlay file system"
  State state = State::kOk;
  std::string detail;  // what was found: "Landlock ABI 7", "mount: Operation not permitted"
  std::string remedy;  // what to do, empty when all is well
};
// "ok", "warning", "failed", "skipped": stable words of --json.
std::string_view state_word(Finding::State state);

// Of the kernel: namespaces, file systems, cgroups, firewall, confinement. Without root most are skipped.
std::vector<Finding> probe_kernel(const Config& config);
// Of the machine and the installation: programs, user, directories, disk space, ports.
std::vector<Finding> probe_machine(const Config& config);
// What the runner found out about the host, from the answer of GET /v1/host.
std::vector<Finding> host_findings(const boost::json::value& host);

}  // namespace atl::cli
