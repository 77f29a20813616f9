// SPDX-License-Identifier: Apache-2.0
//
// What the command's exit status means. Scripts may trust it; docs/man/atoll.1.scd says the same.
#pragma once

namespace atl::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitUnhealthy = 1;  // doctor, status: the question was answered, and the answer is no
inline constexpr int kExitTimedOut =
    124;                                // the command in the sandbox ran into its time limit, as timeout(1)
inline constexpr int kExitAtoll = 125;  // Atoll failed, not the command in the sandbox
inline constexpr int kExitCannotRun = 126;    // the command was found and cannot be executed
inline constexpr int kExitNoCommand = 127;    // the command was not found
inline constexpr int kExitSignalBase = 128;   // the command was ended by signal N: 128 + N
inline constexpr int kExitInterrupted = 130;  // ^C

}  // namespace atl::cli
