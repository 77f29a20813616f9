// SPDX-License-Identifier: Apache-2.0
//
// Every bound of the code interpreter, in one place.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/units.h"

namespace atl::guest::interpreter {

inline constexpr std::size_t kMaxConnections = 1024;
inline constexpr std::size_t kMaxRequest = 16 * kMiB;  // JSON of one request, code included
inline constexpr std::size_t kMaxContexts = 256;
inline constexpr std::size_t kMaxQueued = 256;  // executions that wait for their turn in one context
inline constexpr std::size_t kMaxVariables = 16 * 1024;
inline constexpr std::size_t kMaxEnvironment = 4 * kMiB;  // JSON of the guest daemon's /envs
inline constexpr std::size_t kMaxShown = 200;             // of a text of the client, in an answer
inline constexpr std::size_t kMaxIdentity = 256;          // of a sandbox's name

// What a kernel says.
inline constexpr std::size_t kMaxMessage = 64 * kMiB;  // one message; a larger one is left out and said so
inline constexpr std::size_t kMaxHeld =
    16 * kMiB;                                // messages of one kernel that the client has not taken yet
inline constexpr std::size_t kMaxParts = 64;  // of one message
inline constexpr std::size_t kMaxKernelSpec = 64 * kKiB;
inline constexpr std::size_t kMaxCommandLine = 64 * kKiB;  // of a process that may be a kernel
inline constexpr std::size_t kTextPiece = 32 * kKiB;       // most bytes of one line of output from a pipe

inline constexpr auto kKeepalive = std::chrono::seconds(5);
inline constexpr auto kKernelStart = std::chrono::seconds(60);
inline constexpr auto kConnectRetry = std::chrono::milliseconds(5);
inline constexpr auto kLastWords = std::chrono::milliseconds(500);  // of a kernel that has ended
inline constexpr auto kFirstQuestion =
    std::chrono::milliseconds(20);  // to a kernel that may not hear yet; doubles
// From one interrupt of code whose client has gone to the next, and to the end of a kernel that heeds none.
inline constexpr auto kInterruptAgain = std::chrono::seconds(1);
inline constexpr auto kInterruptLimit = std::chrono::seconds(10);
// A client that takes nothing for this long has gone.
inline constexpr auto kClientStall = std::chrono::minutes(10);
// For clients to take the last words of their code when the interpreter ends. With what kernels take to end
// it is less than the guest daemon waits before a pause.
inline constexpr auto kClientLastWords = std::chrono::seconds(1);

}  // namespace atl::guest::interpreter
