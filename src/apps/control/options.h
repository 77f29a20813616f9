// SPDX-License-Identifier: Apache-2.0
//
// The command line of atoll-control.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/sandbox_service.h"
#include "net/tcp.h"

namespace atl::control_app {

enum class Gateway : bool { kNo, kYes };
enum class Plain : std::uint8_t { kLoopback, kAnywhere };

struct Options {
  std::string data_dir = "/var/lib/atoll";
  std::string run_dir = "/run/atoll";
  std::vector<net::Endpoint> listen;
  std::string domain;  // with the port, as clients see it
  Plain plain = Plain::kLoopback;
  std::string user = "atoll";      // to become when started as root; empty: stay
  Gateway gateway = Gateway::kNo;  // whether atoll-gateway runs beside it
  bool first_use = false;          // templates that Atoll knows are built when they are first asked for
  // How often the host may be promised: the sum of all sandboxes' limits over what there is. What is really
  // left is looked at before every start (control/room.h).
  struct Overcommit {
    std::uint32_t memory = 50, cpu = 1000, disk = 50, processes = 16;
  } overcommit;
  std::uint32_t patience = 1;  // times the usual bounds (base/patience.h)
  control::ServiceOptions service;

  std::string control_dir() const { return data_dir + "/control"; }
  std::string templates_dir() const { return data_dir + "/templates"; }
  std::string gateway_socket() const { return run_dir + "/gateway.sock"; }
  std::string runner_socket() const { return run_dir + "/runner.sock"; }
};

// Either the options, or what to print and the exit code to leave with (--help, --version, mistakes).
struct Parsed {
  std::optional<Options> options;
  std::string text;
  int exit_code = 0;
};
Parsed parse_options(int argc, char** argv);

}  // namespace atl::control_app
