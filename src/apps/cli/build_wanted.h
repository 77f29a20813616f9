// SPDX-License-Identifier: Apache-2.0
//
// The builder of templates that are built when they are first asked for: what `atoll build-wanted` does with
// the files that control leaves (model/first_use.h). It may be killed at any time, and is started again while
// something is asked for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/cli/template_build.h"
#include "model/first_use.h"

namespace atl::cli {

struct BuildWantedOptions {
  std::string data_dir;
  std::vector<std::string> names;  // of the templates that may be asked for
  bool allowed = true;             // by the operator; false: what was asked for before is dropped
  // Builds the template, blocking.
  std::function<Result<BuildResult>(const std::string& name, const OnProgress&)> build;
  // Tells control of it, blocking.
  std::function<Result<void>(const std::string& name, const BuildResult&)> enter;
};

// Builds what is asked for, and returns when nothing is any more. Waits first for another one that does the
// same. What fails is in the notes; an error here is one of the folders.
Result<void> build_wanted(const BuildWantedOptions& options, Clock& clock);

}  // namespace atl::cli
