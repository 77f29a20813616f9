// SPDX-License-Identifier: Apache-2.0
//
// The certificate of a credential of kind tls_client, ready to be shown to an upstream.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "gateway/vault/vault.h"
#include "net/tls/client.h"

namespace atl::gateway {

// `credential` is of TlsClientKind. kInvalid, word "invalid_secret", when certificate or key cannot be read,
// or do not belong together; no error has any of them in it.
Result<std::shared_ptr<const net::TlsClientIdentity>> client_identity(const vault::Credential& credential);

// Those that were used lately: connections are kept by the object, so each version of a secret has one.
class ClientIdentities {
 public:
  static constexpr std::size_t kMost = 256;
  Result<std::shared_ptr<const net::TlsClientIdentity>> of(const vault::Credential& credential);

 private:
  std::unordered_map<std::string, std::shared_ptr<const net::TlsClientIdentity>> known_;  // by id and version
};

}  // namespace atl::gateway
