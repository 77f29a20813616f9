// SPDX-License-Identifier: Apache-2.0
//
// The password of a sandbox's egress proxy. Control keeps it with the sandbox's network rules, as text that
// only this vault opens, and only for the tenant that gave it; so it goes where those go (forks, snapshots)
// and ends with them.
#pragma once

#include <string>
#include <string_view>

#include "base/secret.h"
#include "gateway/vault/vault.h"

namespace atl::gateway::vault {

// base64.
std::string seal_proxy_password(const Vault& vault, std::string_view tenant, std::string_view password);
// kCorrupt, word "proxy_password", when it was not sealed here for this tenant. Empty for empty.
Result<Secret> unseal_proxy_password(const Vault& vault, std::string_view tenant, std::string_view sealed);

}  // namespace atl::gateway::vault
