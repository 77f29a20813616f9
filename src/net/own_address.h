// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace atl::net {

// True when an interface of this machine has this numeric address (of 127.0.0.0/8 only 127.0.0.1 is had by
// one); also when it is no address. Asks the kernel's routing, sends nothing.
bool is_own_address(const std::string& address);

}  // namespace atl::net
