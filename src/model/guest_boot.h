// SPDX-License-Identifier: Apache-2.0
//
// What the runner hands to atoll-guestd when it starts it (proto/guest.md):
//   argv: atoll-guestd --boot-fd N      no environment
//   fd N: a pipe that holds one GuestBoot and nothing else
// Every other descriptor is named in GuestBoot; -1 where this host has none. The daemon marks them
// close-on-exec.
#pragma once

#include <cstdint>

namespace atl::model {

inline constexpr std::uint32_t kGuestBootMagic = 0x544f4f42;  // "BOOT"
inline constexpr std::uint16_t kGuestPort = 49983;       // of the guest daemon, fixed by the E2B protocol
inline constexpr char kGuestAddress[] = "169.254.0.21";  // the same in every sandbox
inline constexpr char kGatewayAddress[] =
    "169.254.0.22";  // host end of the link, the source of control's connections
inline constexpr char kGatewayName[] = "atoll.internal";  // what sandboxes call it, where there is a gateway

// gVisor puts a file system in memory over a /tmp that is empty, which no disk limit bounds. Its driver
// leaves this file there, and the guest daemon removes it.
inline constexpr char kTmpHolder[] = "/tmp/.atoll-boot";

struct GuestBoot {
  std::uint32_t magic;
  std::uint32_t version;            // 1
  std::uint8_t internal_token[32];  // internal calls carry it as hex in X-Atoll-Internal
  std::int32_t listen_fd;           // TCP socket, bound to 0.0.0.0:49983 and listening; -1: bind it yourself
  std::int32_t
      memory_events_fd;  // read-only: memory.oom_control (v1) or memory.events (v2); has a line "oom_kill N"
  std::int32_t memory_usage_fd;  // read-only: memory.usage_in_bytes or memory.current
  std::int32_t memory_stat_fd;   // read-only: memory.stat; "cache N" (v1) or "file N" (v2)
  std::int32_t cpu_usage_fd;     // read-only: cpuacct.usage (ns) or cpu.stat ("usage_usec N")
  std::uint32_t cpu_millis;
  std::uint32_t open_files;  // RLIMIT_NOFILE of user processes
  // Directory of the sandbox's cgroup in the unified tree, where commands can be given labels: below it the
  // runner makes `label-N`. 0 stands for none too.
  std::int32_t cgroup_fd;
  std::uint64_t memory_bytes;
  std::uint64_t disk_bytes;
  char sandbox[24];
  std::int32_t ready_fd;  // a pipe: one byte is written to it, and it is closed, when the daemon listens
  // A socket: one byte asks to bring the disk to rest, one byte (0: done) answers. -1 where the host does it.
  std::int32_t settle_fd;
};

}  // namespace atl::model
