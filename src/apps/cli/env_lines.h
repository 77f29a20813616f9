// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/cli/target.h"

namespace atl::cli {

enum class Transport { kPlain, kTls };

struct EnvLines {
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<std::string> unset;  // variables that would override what is set
};
// What an E2B client needs to talk to `target`. Over TLS it finds every address by E2B_DOMAIN.
EnvLines env_lines(const Target& target, Transport transport);
// For eval by a POSIX shell: "export A='b'\n".
std::string shell_lines(const EnvLines& lines);
// The bundle of the system's authorities and ours, for programs that take one file only: beside `ca_file`.
std::string bundle_path(const std::string& ca_file);

}  // namespace atl::cli
