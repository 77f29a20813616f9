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
  // Tells control of it, blocking. kKept: there is a template of that name by now, and it stays as it is.
  enum class Entered : std::uint8_t { kNow, kKept };
  std::function<Result<Entered>(const std::string& name, const BuildResult&)> enter;
};

// Builds what is asked for, and returns when nothing is any more. Waits first for another one that does the
// same. What fails is in the notes; an error here is one of the folders.
Result<void> build_wanted(const BuildWantedOptions& options, Clock& clock);

// What a builder has noted of `name` is history: it was built by hand.
Result<void> forget_build_note(const std::string& data_dir, const std::string& name);

}  // namespace atl::cli
