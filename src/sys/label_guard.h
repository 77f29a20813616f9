// SPDX-License-Identifier: Apache-2.0
//
// Guards: what keeps other processes of a sandbox out of a labelled one.
//
// KERNEL: who traces a process, or opens its memory, needs all capabilities that it has, or CAP_SYS_PTRACE
// over its user namespace (security/commoncap.c, cap_ptrace_access_check), which nobody inside has. So a
// labelled process has capabilities that others cannot get, not even root. Each label has three of six, so
// that none has all of another's. These six are asked for of the host's own user namespace only (capable(),
// not ns_capable()): whoever has them in a sandbox can do nothing with them.
#pragma once

#include <linux/capability.h>

#include <array>
#include <cstdint>

namespace atl::sys {

inline constexpr std::array<unsigned, 6> kGuards = {CAP_LINUX_IMMUTABLE, CAP_SYS_PACCT,     CAP_SYSLOG,
                                                    CAP_WAKE_ALARM,      CAP_BLOCK_SUSPEND, CAP_AUDIT_READ};

constexpr std::uint64_t all_guards() {
  std::uint64_t out = 0;
  for (unsigned guard : kGuards) out |= std::uint64_t{1} << guard;
  return out;
}

// Of a label from 1 to kMaxLabels: the three of the six that are its own; none for 0.
constexpr std::uint64_t guards_of(std::uint32_t label) {
  std::uint32_t number = 0;
  for (std::size_t a = 0; a < kGuards.size(); ++a) {
    for (std::size_t b = a + 1; b < kGuards.size(); ++b) {
      for (std::size_t c = b + 1; c < kGuards.size(); ++c) {
        if (++number == label)
          return std::uint64_t{1} << kGuards[a] | std::uint64_t{1} << kGuards[b] |
                 std::uint64_t{1} << kGuards[c];
      }
    }
  }
  return 0;
}

}  // namespace atl::sys
