// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runner/driver.h"

namespace atl::runner::gvisor {

// The config.json (OCI runtime specification 1.0) with which runsc runs the guest daemon.
std::string bundle_config(const StartSpec& spec);

}  // namespace atl::runner::gvisor
