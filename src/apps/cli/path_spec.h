// SPDX-License-Identifier: Apache-2.0
//
// What an operand of `atoll cp` and `atoll ls` names: a local path, a path in a sandbox, or standard
// input/output.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace atl::cli {

struct PathSpec {
  enum class Kind { kLocal, kSandbox, kStdio };
  Kind kind = Kind::kLocal;
  std::string sandbox;  // of kSandbox
  std::string path;     // of kLocal and kSandbox; may be relative, never empty
  bool operator==(const PathSpec&) const = default;
};

// "ID:PATH" is in a sandbox, "-" is standard input or output, everything else is local. A local name with a
// colon is written with a slash: "./a:b". "ID:" alone means the home directory of the sandbox's user.
Result<PathSpec> parse_path_spec(std::string_view text);

// The last component: "a" of "x/a", "x/a/" and "a"; empty for "/", "." and "..".
std::string base_name(std::string_view path);
// `directory`/`name` with exactly one slash between.
std::string join_path(std::string_view directory, std::string_view name);

// True when `path` can be made below a chosen directory without leaving it: relative, no empty, "." or ".."
// component, no NUL. Names from a sandbox are hostile, so each passes this before it touches the local disk.
bool safe_relative_path(std::string_view path);

}  // namespace atl::cli
