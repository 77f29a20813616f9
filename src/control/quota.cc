// SPDX-License-Identifier: Apache-2.0
#include "control/quota.h"

#include <algorithm>

#include "base/check.h"

namespace atl::control {

Result<void> Quota::check(const std::string& tenant, std::uint32_t limit) const {
  std::uint32_t now = held_by(tenant);
  if (now < limit) return {};
  return make_error(Code::kExhausted, "the tenant has {} sandboxes, which is its limit", now)
      .with_word("quota")
      .with_hint("kill sandboxes that are no longer needed, or raise the limit of the tenant");
}

Result<Quota::Place> Quota::reserve(const std::string& tenant, std::uint32_t tenant_limit) {
  if (!tenant.empty()) TRY_VOID(check(tenant, tenant_limit));
  if (host_ >= host_limit_) {
    return make_error(Code::kUnavailable, "this host holds {} sandboxes, which is its limit", host_)
        .with_word("capacity")
        .with_hint("try again when sandboxes have ended, or start atoll with a higher --max-sandboxes");
  }
  return adopt(tenant);
}

Quota::Place Quota::adopt(const std::string& tenant) {
  take(tenant);
  return Place(shared_from_this(), tenant);
}

Quota::Place Quota::convert(Place pool_place, const std::string& tenant) {
  pool_place.release();
  return adopt(tenant);
}

void Quota::take(const std::string& tenant) {
  ++host_;
  Count& count = tenants_[tenant];
  count.highest = std::max(count.highest, ++count.now);
}

void Quota::give_back(const std::string& tenant) {
  Count& count = tenants_[tenant];
  CHECK(host_ > 0 && count.now > 0, "more places of tenant '{}' given back than taken", tenant);
  --host_;
  --count.now;
}

std::uint32_t Quota::held_by(const std::string& tenant) const {
  auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.now;
}

std::uint32_t Quota::highest(const std::string& tenant) const {
  auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.highest;
}

}  // namespace atl::control
