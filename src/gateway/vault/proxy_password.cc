// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/proxy_password.h"

#include "base/bytes.h"
#include "gateway/vault/sealing.h"

namespace atl::gateway::vault {
namespace {

constexpr std::string_view kPurpose = "egress proxy";

}  // namespace

std::string seal_proxy_password(const Vault& vault, std::string_view tenant, std::string_view password) {
  return base64_encode(seal(vault.derive(kPurpose), place({kPurpose, tenant}), password));
}

Result<Secret> unseal_proxy_password(const Vault& vault, std::string_view tenant, std::string_view sealed) {
  if (sealed.empty()) return Secret();
  auto raw = base64_decode(sealed);
  auto opened = raw ? unseal(vault.derive(kPurpose), place({kPurpose, tenant}), *raw)
                    : Result<Locked>(make_error(Code::kCorrupt, "not base64"));
  if (opened.ok()) return Secret(std::string(opened->reveal()));
  return make_error(Code::kCorrupt, "the password of the egress proxy was sealed by another vault")
      .with_word("proxy_password")
      .with_hint("give the sandbox its network object anew (PUT /sandboxes/{id}/network)");
}

}  // namespace atl::gateway::vault
