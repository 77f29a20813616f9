// SPDX-License-Identifier: Apache-2.0
//
// Between the runner and its launcher: fixed structs over SOCK_SEQPACKET pairs, descriptors beside them.
// The launcher is a small single-threaded process, forked at the very start of the runner; it is the only one
// that clones.
#pragma once

#include <array>
#include <cstdint>

namespace atl::runner {

enum class OrderKind : std::uint32_t {
  kContainer = 1,  // clone a sandbox of the container tier
  kUserns = 2,     // make a user namespace that maps 0..65535 to uid_base.. and send its descriptor
  kGvisor = 3,     // clone a sandbox of the gvisor tier, with a network namespace of its own
  kMicrovm = 4,    // clone a sandbox of the microvm tier
  kVisit = 5,      // run one command of runsc inside a sandbox of the gvisor tier
  kMonitor = 6,    // clone one that speaks with the monitor of a machine, and ends
};

// Descriptors of an order, in this order. Those of absent bits are left out.
enum class Passed : std::uint32_t {
  kNetns,
  kLower,
  kDisk,
  kKit,
  kStatus,
  kBoot,
  kGuestd,
  kListener,
  kMemoryEvents,
  kMemoryUsage,
  kMemoryStat,
  kCpuUsage,
  kUnified,
  kTasks0,
  kTasks1,
  kTasks2,
  kTasks3,
  kGo,        // one byte comes when the network is in place
  kBundle,    // a pipe with what runsc is to read
  kReady,     // where the guest daemon says that it serves
  kProgram,   // runsc
  kLog,       // of runsc, or of QEMU and the guest's console
  kImage,     // the disk's file, for a guest that mounts it itself
  kTemplate,  // the template's file, likewise
  kTap,       // the machine's end of its cable
  kChannel,   // where the channel to the guest's first program is accepted; of a kMonitor: the monitor
  kQmp,       // where connections to QEMU's monitor are accepted
  kMemory,    // a mount of the file with the memory to start from
  kState,     // that file, to read the state of devices from; of a kMonitor: to write it
  kAgain,     // of a kMonitor: the same file, to change it
  kAnswer,    // of a kMonitor: where its answer goes
  kHost,      // pidfd of PID 1 of the sandbox that is visited
  kMemory0,   // mounts of files that hold memory
  kMemory1,
  kMemory2,
  kLock,   // of the runner: held by a visit
  kGroup,  // a detached copy of the directory of its group, above which there is nothing; for the guest
           // daemon
  kCount,
};
inline constexpr std::size_t kTaskFds = 4;
inline constexpr std::size_t kPassedCount = static_cast<std::size_t>(Passed::kCount);
static_assert(kPassedCount <= 64, "LaunchOrder::present has a bit for each");

// What the launcher is to do.
struct LaunchOrder {
  OrderKind kind;
  std::uint64_t present;  // bit set of Passed
  std::uint64_t launch_id;
  std::uint32_t uid_base;
  std::uint32_t open_files;
  std::uint64_t shm_bytes;
  std::uint64_t memory_bytes;
  std::uint32_t processors;     // of a machine
  std::uint32_t emulated;       // 1: its processor is software
  std::uint32_t tsc_khz;        // of this host, for an emulated one
  std::uint32_t command;        // of a visit: gvisor::Command
  std::uint32_t resumes;        // of a kMonitor: 1: to let the machine go on, 0: to save it
  std::uint64_t memory_offset;  // in kMemory
  char hostname[24];
};

// The answer comes as soon as the child is released; what the child does next it reports by itself
// (ChildReport).
struct LaunchAnswer {
  std::uint64_t launch_id;
  std::int32_t pid;
  std::int32_t error;  // errno; 0 = a pidfd (or the user namespace) comes with this message
  std::uint32_t clone_us;
  std::uint32_t maps_us;
  char what[32];  // the step that failed
};

// A child of the launcher has ended.
struct LaunchExit {
  std::uint64_t launch_id;
  std::int32_t pid;
  std::int32_t wait_status;
};

// What the child of an order went through, written by it to Passed::kStatus: once before exec with error 0,
// and once more if exec fails. The end of the pipe after the first one means that exec succeeded.
struct ChildReport {
  std::int32_t error;
  std::uint32_t line;  // of child.cc, for our logs
  char what[40];
  std::uint64_t released_ns;  // CLOCK_MONOTONIC
  std::uint64_t mounted_ns;
  std::uint64_t pivoted_ns;
  std::uint64_t confined_ns;
};

}  // namespace atl::runner
