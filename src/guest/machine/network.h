// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"

namespace atl::guest {

// Gives eth0 the addresses and routes that every sandbox has, and brings it and lo up.
Result<void> bring_up_network();

}  // namespace atl::guest
