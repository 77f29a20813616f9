// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "sys/fd.h"

namespace atl::runner::gvisor {

// A file in memory, of bounded size, for what runsc says.
Result<sys::Fd> make_log();

}  // namespace atl::runner::gvisor
