// SPDX-License-Identifier: Apache-2.0
//
// CertificateAuthority: the one of one sandbox. It exists in the gateway only; the sandbox
// gets its certificate to trust. docs/decisions/0115-authorities.md says why it is derived and not stored.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "gateway/tls/leaf_cache.h"
#include "net/tls/acceptor.h"

namespace atl::gateway {

// Use from one loop.
class CertificateAuthority {
 public:
  static constexpr auto kLife = std::chrono::hours(24 * 30);
  static constexpr auto kLeafLife = std::chrono::hours(24 * 3);
  // Clocks of machines that were restored may be behind until they are set.
  static constexpr auto kBackdate = std::chrono::hours(24);

  // The authority of `sandbox` under `root`, 32 secret bytes of this installation: the same key for the same
  // sandbox at every start of the gateway, so that what a sandbox trusts stays good. P-256, may only sign
  // certificates of servers, and none for names or addresses of the sandbox itself. Valid for kLife from
  // `now`.
  static Result<std::shared_ptr<CertificateAuthority>> derive(std::string_view root, std::string_view sandbox,
                                                              WallTime now);

  // The certificate in PEM, for the sandbox's trust store.
  const std::string& certificate_pem() const { return pem_; }
  // The name by which OpenSSL finds it in a folder: eight hexadecimal digits (X509_NAME_hash(3)).
  std::string subject_hash() const;
  WallTime ends() const { return ends_; }
  // A certificate for `host` (canonical lower-case DNS name, or IP address with or without brackets), from
  // the cache or newly signed, good for an hour at least. All leaves have one key. kInvalid when `host` is
  // neither.
  Result<net::Presented> leaf(const std::string& host, WallTime now);
  std::size_t cached() const { return cache_.size(); }

 private:
  CertificateAuthority() = default;
  Result<void> make_certificate(std::string_view sandbox, WallTime now);
  Result<void> prepare_leaves();
  Result<std::shared_ptr<X509>> sign_leaf(const std::string& host, WallTime now, WallTime ends) const;

  net::X509Ptr certificate_;
  net::KeyPtr key_;
  std::shared_ptr<EVP_PKEY> leaf_key_;
  std::vector<net::ExtensionPtr> leaf_extensions_;  // those that are the same for every host
  std::string pem_;
  WallTime ends_;
  LeafCache cache_;
};

}  // namespace atl::gateway
