// SPDX-License-Identifier: Apache-2.0
//
// FirstUse: asks for the build of a template that Atoll knows and that is not there yet, and says how far it
// is. Control may not build: it leaves a file, and `atoll build-wanted` finds it (model/first_use.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/first_use.h"

namespace atl::control {

// Small files of the data directory, read and written on the caller's loop.
class FirstUse {
 public:
  // Makes the folder of what is wanted, so that it can be watched from the first moment on.
  static Result<FirstUse> open(const std::string& data_dir, Clock& clock);

  // Whether a template of this name is built when it is asked for.
  static bool knows(std::string_view name);
  // Asks for the build of `name`, unless one failed a moment ago. kUnavailable, with how far it is.
  Error ask(const std::string& name) const;

  struct Build {
    std::string name;
    std::optional<WallTime> asked;  // since when it is waited for
    std::optional<model::BuildNote> note;
    bool under_way = false;  // just now; a note that says so without it is that of a build that was killed
    unsigned broken_off() const;  // in a row, and nothing has succeeded or failed since
  };
  // Those that are asked for, under way, or failed. What was broken off and nobody asks for any more is none.
  std::vector<Build> builds() const;
  const std::string& log_path() const { return log_path_; }

 private:
  FirstUse(const std::string& data_dir, Clock& clock);
  std::string wanted_path(const std::string& name) const { return fmt::format("{}/{}", wanted_dir_, name); }
  Build look(const std::string& name) const;
  Error not_begun(const Build& build) const;
  Error broken_off(const Build& build) const;
  bool builder_lives() const;

  std::string wanted_dir_, notes_dir_, log_path_;
  Clock* clock_;
};

}  // namespace atl::control
