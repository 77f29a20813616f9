// SPDX-License-Identifier: Apache-2.0
//
// A template that is built when it is first asked for: what control, which may not build, and the builder,
// which is root, say to each other (docs/decisions/0107-build-at-first-use.md). Control makes a file
// whose name is the template's; nobody else reads what is in it. The builder answers with a note.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace atl::model {

// Below <data dir>/control, which belongs to control.
inline constexpr char kWantedFolder[] = "wanted";
// Below <data dir>/templates, which belongs to root.
inline constexpr char kNotesFolder[] = ".first-use";
// In it. Held with a write lock (F_OFD_SETLK, fcntl(2)) by the builder as long as it lives: a note that says
// `building` is true only then.
inline constexpr char kBuilderLock[] = ".lock";
inline constexpr unsigned kMaxBrokenBuilds = 3;  // in a row; then it is called a failure

// What the builder says of one template.
struct BuildNote {
  enum class State : std::uint8_t { kBuilding, kFailed };
  State state = State::kBuilding;
  int percent = 0;      // kBuilding
  std::string text;     // kBuilding: the step; kFailed: why
  WallTime since;       // when this build began, or failed
  WallTime not_before;  // kFailed: no other one begins earlier
  unsigned tries = 0;   // that have begun since the last success, this one among them
  unsigned broken = 0;  // kBuilding: that were broken off right before this one, in a row
};

// As it lies on the disk.
std::string format_build_note(const BuildNote& note);
Result<BuildNote> parse_build_note(std::string_view text);

// From the `tries`th failure in a row to the next try: a minute, doubled each time, at most 6 hours.
Millis build_delay(unsigned tries);

}  // namespace atl::model
