// SPDX-License-Identifier: Apache-2.0
//
// How runsc is called: by PID 1 of a sandbox for its start, and by visits for what comes later. All calls
// must agree in what they say of the sandbox.
#pragma once

#include <initializer_list>

namespace atl::runner::gvisor {

// Numbers at which runsc finds its descriptors.
inline constexpr int kBootFd = 3;
inline constexpr int kReadyFd = 4;
inline constexpr int kLogFd = 5;

// One call; everything is borrowed.
struct RunscCall {
  int program;
  int log;
  int boot = -1;   // for the guest daemon; -1: none
  int ready = -1;  // likewise
  int first_free;  // no descriptor has this number or a higher one
  std::initializer_list<const char*> arguments;
};

// Becomes runsc, with /dev/null for its standard streams. Allocates nothing and takes no lock. Returns the
// step that failed, with errno.
const char* exec_runsc(const RunscCall& call);

}  // namespace atl::runner::gvisor
