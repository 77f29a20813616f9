// SPDX-License-Identifier: Apache-2.0
//
// attach: joins the caller's standard streams, terminal and signals with one process in a sandbox. What run,
// exec and shell share.
#pragma once

#include <memory>

#include "apps/cli/guest_client.h"
#include "apps/cli/session.h"

namespace atl::cli {

struct AttachOptions {
  ProcessSpec spec;
  bool forward_stdin = false;
  bool terminal = false;  // raw mode; `spec.terminal` is set
  bool json = false;      // events as lines of JSON instead of raw output
};

// Whether standard input carries data for the command: a pipe or a file, but no terminal and not /dev/null.
bool stdin_has_data();

// Runs the process to its end and returns the exit status for the caller (exit_codes.h). While it runs, the
// sandbox's deadline is pushed on. The first SIGINT, SIGTERM or SIGHUP is passed on to the process; a second
// one kills it and returns at once.
Task<Result<int>> attach(std::shared_ptr<GuestClient> guest, AttachOptions options);

}  // namespace atl::cli
