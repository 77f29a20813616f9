// SPDX-License-Identifier: Apache-2.0
//
// The two ways to a template build.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "template/base_recipe.h"
#include "template/builds.h"
#include "template/entry.h"

namespace atl::templates {

// Called from the building thread: `percent` never falls; `text` says what is being done.
using Progress = std::function<void(int percent, std::string_view text)>;

// What a build of `recipe` has as its recipe: the version, and which program was put in, so that one with an
// older program is out of date. Reads the program. Blocks.
Result<std::string> recipe_stamp(const Recipe& recipe, const std::string& interpreter);

// Makes a template that Atoll knows from Debian's packages: a minute or more, most of it downloading. Needs
// root, mmdebstrap and mkfs.erofs. `interpreter`: path of the program that `recipe.interpreter` asks for.
// Blocks.
Result<Manifest> build_recipe(const Builds& builds, const Recipe& recipe, const std::string& suite,
                              const std::string& interpreter, const Progress& progress);

// What `atoll template build` asks for.
struct SourceRequest {
  std::string from;  // a folder or a tar archive (plain, gzip, bzip2, xz, zstd)
  std::string name;
  TreeLimits limits;
};
// Builds a template from a root file system of the caller's. Its contents are treated as hostile. Blocks.
Result<Manifest> build_from(const Builds& builds, const SourceRequest& request, const Progress& progress);

}  // namespace atl::templates
