// SPDX-License-Identifier: Apache-2.0
//
// The port of the guest daemon, where it makes the socket itself.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "sys/fd.h"

namespace atl::guest {

// A socket that listens on this port of every address, and shares it with nobody. Does not block.
Result<sys::Fd> listen_alone(std::uint16_t port);

}  // namespace atl::guest
