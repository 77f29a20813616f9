// SPDX-License-Identifier: Apache-2.0
//
// What a sandbox of the container tier may do: capabilities, hidden and read-only parts of /proc, system
// calls. Data only; docs/decisions/0012 has the reasons.
#pragma once

#include <linux/capability.h>
#include <sys/sysmacros.h>

#include <cstdint>

#include "sys/seccomp/filter.h"

namespace atl::runner::container {

// What apt-get, sudo, useradd, chown and servers on low ports need of root. Not among them: SYS_ADMIN,
// NET_ADMIN, NET_RAW, MKNOD, SYS_PTRACE, SYS_RESOURCE, SYS_NICE, DAC_READ_SEARCH (open_by_handle_at).
inline constexpr std::uint64_t kCapabilities =
    1ull << CAP_CHOWN | 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_FOWNER | 1ull << CAP_FSETID |
    1ull << CAP_KILL | 1ull << CAP_SETGID | 1ull << CAP_SETUID | 1ull << CAP_SETPCAP | 1ull << CAP_SETFCAP |
    1ull << CAP_NET_BIND_SERVICE | 1ull << CAP_SYS_CHROOT | 1ull << CAP_AUDIT_WRITE;

inline constexpr std::uint64_t kLockedMemory = 8ull << 20;
inline const dev_t kNullDevice = makedev(1, 3);

// Below /proc. The user 0 of a sandbox owns none of these; read-only is the second lock.
inline constexpr const char* kReadOnlyProc[] = {"sys", "bus", "fs", "irq", "sysrq-trigger"};

struct Masked {
  const char* path;
  bool directory;
};
// Facts about the host or its other users, and files that were abused before. Each costs a start about 15 us,
// so only those that the kernel lets everyone read are masked (older kernels: more of them).
inline constexpr Masked kMaskedProc[] = {
    {"acpi", true},           {"driver", true},     {"pressure", true},     {"scsi", true},
    {"cmdline", false},       {"diskstats", false}, {"interrupts", false},  {"iomem", false},
    {"kallsyms", false},      {"kcore", false},     {"key-users", false},   {"keys", false},
    {"latency_stats", false}, {"mtrr", false},      {"sched_debug", false}, {"timer_list", false},
    {"zoneinfo", false},
};

// The system call filter is two tables, chained: libseccomp cannot express "allowed unless an argument is one
// of these" in one.
sys::FilterPolicy allowed_calls();      // by number; the rest is refused
sys::FilterPolicy refused_arguments();  // of calls that are allowed else

}  // namespace atl::runner::container
