// SPDX-License-Identifier: Apache-2.0
//
// Template builds on this machine: runs atoll-template, shows its progress, registers the result with
// control.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/api_client.h"
#include "apps/cli/isolation_rule.h"

namespace atl::cli {

struct BuildResult {
  std::string build;    // UUID
  bool cached = false;  // an older build was still right
  std::uint64_t size_bytes = 0;
  std::uint64_t memory_mib = 0;  // of its sandboxes, as the builder thinks best
};
using OnProgress = std::function<void(int percent, const std::string& text)>;

// Runs atoll-template with `arguments` (without --json-progress) to its end. Its errors come back with their
// hint; its log goes to `log_path`. Blocking; only from a single-threaded process.
Result<BuildResult> run_builder(const std::vector<std::string>& arguments, const std::string& log_path,
                                const OnProgress& on_progress);

// What an answer of control says of templates that were asked for and are not there yet, a sentence each.
std::vector<std::string> build_lines(const json::value& answer);

struct Registration {
  std::string name;
  std::string user, workdir;  // empty: control's defaults
  std::map<std::string, std::string> environment;
  std::uint64_t memory_mib = 0, disk_mib = 0, cpu_millis = 0;  // 0: control's defaults
  std::optional<std::uint32_t> ready;
  IsolationChange isolation;
  std::optional<std::chrono::seconds> idle_timeout;
  // Where nothing is asked for: of a build, and of a template, that is new.
  std::uint64_t first_memory_mib = 0;
  std::uint32_t first_ready = 0;
  bool replace = true;  // a template of this name; else it is kConflict, `template_exists`
};
// Points `name` to `build`. True when something changed. kConflict, `build_registered`, when it is registered
// with other things than are asked for here.
Task<Result<bool>> register_build(std::shared_ptr<ApiClient> api, Registration registration,
                                  std::string build);

}  // namespace atl::cli
