// SPDX-License-Identifier: Apache-2.0
//
// filesystem.Filesystem: the RPCs on paths, and watching.
#pragma once

#include "guest/rpc.h"
#include "guest/state.h"

namespace atl::guest {

// Serves "/filesystem.Filesystem/<method>". False when there is no such method; nothing has been sent then.
Task<bool> serve_filesystem(Guest& guest, Exchange& exchange, std::string_view method);

}  // namespace atl::guest
