// SPDX-License-Identifier: Apache-2.0
//
// The first program of a guest of the microvm tier: mounts template and disk, brings up the network, starts
// the guest daemon in namespaces of its own, and ends the machine when that ends.
#pragma once

#include "base/result.h"

namespace atl::guest {

// Never returns but with an error: then there is no sandbox.
Result<void> run_machine();

}  // namespace atl::guest
