// SPDX-License-Identifier: Apache-2.0
//
// Private keys that are not stored anywhere, because they can be made again.
#pragma once

#include <string_view>

#include "net/tls/openssl.h"

namespace atl::gateway {

// The P-256 key that belongs to `purpose` and `name` under `root` (32 secret bytes): the same for the same
// three, and without `root` nothing about it can be told.
Result<net::KeyPtr> derive_key(std::string_view root, std::string_view purpose, std::string_view name);

}  // namespace atl::gateway
