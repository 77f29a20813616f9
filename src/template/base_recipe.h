// SPDX-License-Identifier: Apache-2.0
//
// The templates that Atoll knows how to make from Debian's packages: `base`, a minimal Debian with what
// agents use most, and `code-interpreter-v1`, the same with the kernels of the code interpreter.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/known_templates.h"

namespace atl::templates {

// How one template is made.
struct Recipe {
  std::string_view name;      // of the template
  std::string_view version;   // changes whenever the recipe does; a build of another version is out of date
  std::string_view packages;  // beside those of every recipe, each with a comma before it
  std::uint32_t memory_mb;    // of its sandboxes
  bool interpreter;           // the code interpreter is put in, and starts with every sandbox
};
// Null for a name that is not known.
const Recipe* find_recipe(std::string_view name);
// "base, code-interpreter-v1"
std::string recipe_names();
// Debian releases that the recipe is tested with.
inline constexpr std::string_view kSuites[] = {"bookworm", "trixie"};

// One line per repository, in the form of sources.list(5), that the image is built from.
struct AptHost {
  std::vector<std::string> sources;  // empty: Debian's own servers
  std::vector<std::string> options;  // apt.conf(5) lines for downloading: proxies, time outs
};

// Reads what this host uses to reach Debian's servers: mirrors for `suite` and download settings. Runs
// apt-get and apt-config in a jail on the folder `work`. Falls back to Debian's own servers when the host has
// no mirror of that suite.
AptHost read_apt_host(const std::string& suite, const std::string& work);

// Pure parts, for tests. `targets`: output of apt-get indextargets; `dump`: output of apt-config dump.
std::vector<std::string> mirror_lines(std::string_view targets, std::string_view suite);
std::vector<std::string> download_options(std::string_view dump);

// The command line of mmdebstrap that makes `recipe` from `suite` in /mnt/tree. Reads the sources from
// /mnt/sources.list and the apt options from /mnt/apt.conf when they are given.
std::vector<std::string> recipe_command(const Recipe& recipe, const std::string& suite, const AptHost& host);
// Shell script that mmdebstrap runs at the end with the tree as $1. With `recipe.interpreter` it finds that
// program in the work folder, as kInterpreterFile.
std::string recipe_script(const Recipe& recipe, const std::string& suite);
inline constexpr char kInterpreterFile[] = "atoll-interpreter";
// This host's release when the recipe knows it, else bookworm. `os_release` is the text of /etc/os-release.
std::string host_suite(std::string_view os_release);

}  // namespace atl::templates
