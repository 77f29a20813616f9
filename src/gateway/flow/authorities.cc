// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/authorities.h"

namespace atl::gateway {
namespace {

// An authority is renewed while its leaves still have time.
constexpr auto kRenewal = std::chrono::hours(24 * 7);

}  // namespace

Result<std::shared_ptr<CertificateAuthority>> Authorities::of(const std::string& sandbox) {
  WallTime now = clock_.now();
  auto found = known_.find(sandbox);
  if (found != known_.end() && now + kRenewal < found->second->ends()) return found->second;
  if (known_.size() >= kMost) known_.erase(known_.begin());
  TRY(auto made, CertificateAuthority::derive(root_, sandbox, now));
  known_[sandbox] = made;
  return made;
}

}  // namespace atl::gateway
