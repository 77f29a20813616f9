// SPDX-License-Identifier: Apache-2.0
//
// The command line of atoll-gateway.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace atl::gateway_app {

struct Options {
  std::string data_dir = "/var/lib/atoll";
  std::string run_dir = "/run/atoll";
  std::string user = "atoll-gateway";  // to become when started as root; empty: stay
  std::string control_user = "atoll";  // whose group may speak to the feed
  std::uint16_t port = 7401;           // TCP and UDP, where slots are redirected to
  std::vector<std::string> dns;        // servers, "9.9.9.9:53"; empty: those of the host
  std::string ca_file;                 // roots for upstreams; empty: those of the host
  std::string rules_file;              // the operator's rules; empty: none

  std::string gateway_dir() const { return data_dir + "/gateway"; }
  std::string key_file() const { return gateway_dir() + "/master.key"; }
  // Of what need not outlive a boot.
  std::string passing_dir() const { return run_dir + "/gateway"; }
  std::string feed_socket() const { return run_dir + "/gateway.sock"; }
};

// Either the options, or what to print and the exit code to leave with (--help, --version, mistakes).
struct Parsed {
  std::optional<Options> options;
  std::string text;
  int exit_code = 0;
};
Parsed parse_options(int argc, char** argv);

}  // namespace atl::gateway_app
