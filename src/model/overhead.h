// SPDX-License-Identifier: Apache-2.0
//
// What the runtime of a sandbox takes of the host beside the sandbox's own limits. The one place for these
// numbers: the runner adds them to the limits of the sandbox's group, and control counts them in quotas.
#pragma once

#include <cstdint>

#include "model/features.h"
#include "model/sandbox.h"

namespace atl::model {

struct Overhead {
  std::uint64_t memory_bytes = 0;
  std::uint32_t processes = 0;
  bool operator==(const Overhead&) const = default;
};

// Bounds, above what bench/overhead has measured. container: nothing runs beside its programs. gvisor: the
// guest's kernel and its file server; each process of the guest is another one on the host, and counts among
// the sandbox's own. microvm: QEMU's program, buffers and threads; without the layer `kvm` it is emulated,
// and keeps translated code, too.
Overhead overhead_of(Tier tier, std::uint64_t missing_layers);

}  // namespace atl::model
