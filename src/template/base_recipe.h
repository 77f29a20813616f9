// SPDX-License-Identifier: Apache-2.0
//
// The recipe of the `base` template: a minimal Debian with what agents use most.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace atl::templates {

// Changes whenever the recipe does; a base build with another recipe is out of date.
inline constexpr char kBaseRecipe[] = "1";
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

// The command line of mmdebstrap that builds `suite` into /mnt/tree. Reads the sources from /mnt/sources.list
// and the apt options from /mnt/apt.conf when they are given.
std::vector<std::string> base_command(const std::string& suite, const AptHost& host);
// Shell script that mmdebstrap runs at the end with the tree as $1.
std::string base_script(const std::string& suite);
// This host's release when the recipe knows it, else bookworm. `os_release` is the text of /etc/os-release.
std::string host_suite(std::string_view os_release);

}  // namespace atl::templates
