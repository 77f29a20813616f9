// SPDX-License-Identifier: Apache-2.0
//
// Every bound of the guest daemon, in one place. What happens at each bound is said where it is used.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace atl::guest {

// Connections and messages.
inline constexpr std::size_t kMaxConnections = 1024;
inline constexpr std::size_t kMaxMessage = 4 * kMiB;  // JSON of one RPC message
inline constexpr std::size_t kMaxJsonDepth = 32;
inline constexpr std::size_t kMaxInitBytes = 4 * kMiB;

// Processes.
inline constexpr std::size_t kMaxProcesses = 1024;       // alive, started through the API
inline constexpr std::size_t kMaxSubscribers = 64;       // of one process
inline constexpr std::size_t kMaxInputWaiters = 64;      // stdin messages of one process that wait for room
inline constexpr std::size_t kMaxHolders = 1024;         // ended processes whose output a child holds open
inline constexpr std::size_t kMaxArguments = 16 * 1024;  // argv entries
inline constexpr std::size_t kMaxVariables = 16 * 1024;  // environment entries
inline constexpr std::size_t kMaxExecBytes = 2 * kMiB;   // argv and environment together
inline constexpr std::size_t kMaxTag = 1024;
inline constexpr std::size_t kPipeChunk = 32 * kKiB;  // most output bytes in one data event
inline constexpr std::size_t kPtyChunk = 16 * kKiB;
inline constexpr std::size_t kRingBytes = kMiB;       // output kept per process
inline constexpr std::size_t kRingFloor = 64 * kKiB;  // what a process keeps at least when there are many
inline constexpr std::size_t kRingTotal = 64 * kMiB;  // all rings together, as a goal
inline constexpr std::size_t kMaxRetained = 64;       // ended processes that late callers can still ask for
inline constexpr std::size_t kRetainedBytes = 16 * kMiB;  // of their output
inline constexpr auto kRetention = std::chrono::seconds(30);
// A subscriber that takes nothing for this long no longer holds the process back.
inline constexpr auto kSubscriberStall = std::chrono::seconds(15);
// After a process has ended, how long its output may be held open by children that it left behind.
inline constexpr auto kHolderGrace = std::chrono::milliseconds(500);
inline constexpr auto kKeepaliveDefault = std::chrono::seconds(90);
inline constexpr int kOomScoreAdjust = 500;  // of user processes: they go before the daemon

// Files.
inline constexpr std::size_t kMaxPath = 4096;
inline constexpr std::size_t kMaxName = 255;
inline constexpr std::size_t kMaxLinks = 40;  // symbolic links in one path, as the kernel's MAXSYMLINKS
inline constexpr std::size_t kFileBuffer = 256 * kKiB;   // of one transfer
inline constexpr std::size_t kMaxTransfers = 256;        // uploads and downloads at the same time
inline constexpr std::size_t kMaxEntries = 100'000;      // of one ListDir answer
inline constexpr std::size_t kMaxListBytes = 48 * kMiB;  // JSON of one ListDir answer
inline constexpr std::size_t kMaxTreeDepth =
    256;  // that ListDir or a recursive watch enters; each level holds a descriptor
inline constexpr std::size_t kMaxParts = 1024;          // of one multipart upload
inline constexpr std::size_t kMaxPartHead = 16 * kKiB;  // header bytes of one part
inline constexpr std::size_t kMaxPartHeaders = 16;
inline constexpr std::size_t kMaxBoundary = 200;  // RFC 2046 says 70; clients do not all care
inline constexpr std::size_t kMaxComposeSources = 1024;
inline constexpr std::size_t kMaxMetadata = 64;  // keys of one file
inline constexpr std::size_t kMaxMetadataValue = 4096;
inline constexpr std::uint64_t kMaxGzipSource = 32 * kMiB;  // larger downloads are sent as they are

// Batches.
inline constexpr std::size_t kMaxBatchRequest = 16 * kMiB;
inline constexpr std::size_t kMaxBatchSteps = 1000;
inline constexpr std::size_t kMaxBatchName = 128;  // of a key, and of a step's id
inline constexpr std::size_t kMaxBatchParallel = 16;
inline constexpr std::size_t kMaxBatches = 64;  // that run
inline constexpr std::size_t kMaxBatchOutput =
    16 * kMiB;  // that steps of one batch say; what is more is left out
inline constexpr std::size_t kMaxBatchError = 2 * kKiB;       // text of a step's error
inline constexpr std::size_t kMaxBatchRecords = 500;          // keys that are remembered
inline constexpr std::size_t kBatchRecordsBytes = 32 * kMiB;  // of their answers, on the disk
inline constexpr std::size_t kMaxBatchRecord =
    48 * kMiB;                                          // of one that is read: output, and ends of all steps
inline constexpr std::size_t kMaxRecordDepth = 128;     // of what code shows, in a line of it
inline constexpr std::size_t kShortBatchLine = kKiB;    // how a step ended, of an answer that had to go
inline constexpr std::size_t kMaxBatchFile = 8 * kMiB;  // that a step reads
inline constexpr auto kBatchLook = std::chrono::milliseconds(200);  // at whether a batch was cancelled
inline constexpr std::uint16_t kInterpreterPort = 49999;  // of the code interpreter, fixed by its client

// Accounts.
inline constexpr std::size_t kMaxAccountFile = kMiB;  // /etc/passwd, /etc/group
inline constexpr std::size_t kMaxGroups = 256;        // supplementary groups of one user

// Watching.
inline constexpr std::size_t kMaxWatchers = 64;                 // streaming and polled together
inline constexpr std::size_t kMaxWatchedDirectories = 8192;     // of one watcher
inline constexpr std::size_t kMaxWatchEvents = 16 * 1024;       // queued for one watcher
inline constexpr auto kWatcherIdle = std::chrono::minutes(10);  // a polled watcher that nobody asks

// Worker threads.
inline constexpr std::size_t kFileThreads = 16;
inline constexpr std::size_t kSpawnThreads = 4;
inline constexpr auto kThreadIdle = std::chrono::seconds(2);
inline constexpr std::size_t kThreadStack = 512 * kKiB;

}  // namespace atl::guest
