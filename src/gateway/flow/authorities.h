// SPDX-License-Identifier: Apache-2.0
//
// Authorities: the certificate authorities of the sandboxes whose TLS was opened lately.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "gateway/tls/authority.h"

namespace atl::gateway {

// Use from one loop.
class Authorities {
 public:
  static constexpr std::size_t kMost = 1024;  // with their leaves; others are derived anew when needed

  // `root`: 32 secret bytes of this installation.
  Authorities(std::string root, const Clock& clock) : root_(std::move(root)), clock_(clock) {}

  // The one of this sandbox, made or renewed when it must be.
  Result<std::shared_ptr<CertificateAuthority>> of(const std::string& sandbox);
  void forget(const std::string& sandbox) { known_.erase(sandbox); }

 private:
  const std::string root_;
  const Clock& clock_;
  std::unordered_map<std::string, std::shared_ptr<CertificateAuthority>> known_;
};

}  // namespace atl::gateway
