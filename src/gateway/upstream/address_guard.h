// SPDX-License-Identifier: Apache-2.0
//
// Which addresses may be dialled: what a policy says, asked for every address, after it was resolved.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gateway/names/authority.h"
#include "gateway/names/ip_address.h"
#include "gateway/upstream/resolver.h"

namespace atl::gateway {

// Success, or why this address may not be dialled (kDenied). Pure and quick: it is asked for every
// connection.
using AddressCheck = std::function<Result<void>(const IpAddress&)>;

// kDenied, word "address_denied", for an address that is not of the world, or that is this machine's own,
// whatever the port: the gateway must not be made to speak with itself or with its neighbours. It is the
// check of whom no rule opens more to.
Result<void> check_world(const IpAddress& address);

// The addresses of `host` that pass `check`, in the order in which they are to be tried. When none passes,
// the reason of the first. `asker` as of Resolver::resolve().
Task<Result<std::vector<IpAddress>>> checked_addresses(std::shared_ptr<Resolver> resolver, Host host,
                                                       AddressCheck check, std::string asker);

}  // namespace atl::gateway
