// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "http/message.h"

namespace atl::gateway {

// Fields that are between us and the one next to us (RFC 9110 §7.6.1), and all of Proxy-*.
bool is_for_one_hop(std::string_view name);

// The lower-case names that all Connection fields list.
std::vector<std::string> connection_options(const http::Headers& headers);

}  // namespace atl::gateway
