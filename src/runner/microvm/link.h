// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "runner/slots.h"
#include "sys/fd.h"

namespace atl::runner::microvm {

// Makes the cable of a machine in the slot's network namespace, which routes between it and the slot's link:
// what the guest sends reaches the host as an IPv4 packet from the slot's own address, or not at all. The
// host's end of the link, and with it every rule, stays as it is. The end of the machine is returned; the
// cable goes with it. `home`: the runner's network namespace.
Result<sys::Fd> make_cable(const Slot& slot, int home);

}  // namespace atl::runner::microvm
