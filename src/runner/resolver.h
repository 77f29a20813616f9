// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace atl::runner {

// The /etc/resolv.conf of sandboxes: those name servers of the host that are public, since sandboxes reach no
// private address, else well-known public ones.
std::string resolver_configuration();
// The same from the text of a resolv.conf.
std::string resolver_configuration(std::string_view host_configuration);

}  // namespace atl::runner
