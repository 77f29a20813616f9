// SPDX-License-Identifier: Apache-2.0
//
// The way to token endpoints: the gateway's own upstream side, like requests of sandboxes.
#pragma once

#include "gateway/upstream/upstream.h"
#include "gateway/vault/minter.h"

namespace atl::gateway {

// `upstream` must outlive what is returned. `check` says which addresses endpoints may have: a tenant chooses
// their names, so it must be no wider than what sandboxes may reach. Redirects are not followed, and an
// answer has 64 KiB at most and comes within a minute.
vault::Fetch make_token_fetch(Upstream& upstream, AddressCheck check);

}  // namespace atl::gateway
