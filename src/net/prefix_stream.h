// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "net/stream.h"

namespace atl::net {

// A stream whose first bytes are `prefix`, which somebody has already read from `stream`.
StreamPtr with_prefix(StreamPtr stream, std::string prefix);

}  // namespace atl::net
