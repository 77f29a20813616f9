// SPDX-License-Identifier: Apache-2.0
//
// Quota: what each tenant and the host hold right now: sandboxes, the sums of their limits, and what else is
// kept on disk: of sandboxes that rest there, and snapshots. A place is
// reserved before anything is made and given back by the reservation's end, so the counters cannot drift from
// what exists.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "model/overhead.h"
#include "model/record.h"

namespace atl::control {

using model::Amounts;

// Each amount to its own.
void add(Amounts& sum, const Amounts& more);
// The amounts of one sandbox with these limits: what its group may take on the host.
Amounts amounts_of(const model::Limits& limits, const model::Overhead& overhead);

// Bytes on the host's disk, and nothing else.
Amounts on_disk(std::uint64_t bytes);

// Belongs to the control loop. Places keep it alive.
class Quota : public std::enable_shared_from_this<Quota> {
 public:
  // Sums of zero are not limited; the number of sandboxes always is.
  explicit Quota(Amounts host_limit) : host_limit_(host_limit) {}

  // Holds the amounts of one sandbox, of the host and, when it has a tenant, of the tenant. Move-only.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept = default;
    Place& operator=(Place&& other) noexcept {
      release();
      quota_ = std::move(other.quota_);
      tenant_ = std::move(other.tenant_);
      held_ = other.held_;
      return *this;
    }
    ~Place() { release(); }
    void release() {
      if (auto quota = std::exchange(quota_, nullptr)) quota->give_back(tenant_, held_);
    }
    explicit operator bool() const { return quota_ != nullptr; }
    Amounts held() const { return quota_ ? held_ : Amounts(); }

   private:
    friend class Quota;
    Place(std::shared_ptr<Quota> quota, std::string tenant, Amounts held)
        : quota_(std::move(quota)), tenant_(std::move(tenant)), held_(held) {}
    std::shared_ptr<Quota> quota_;
    std::string tenant_;
    Amounts held_;
  };

  // kExhausted with the word `quota` when it is too much for the tenant; kUnavailable with the word
  // `capacity` when it is too much for the host. An empty tenant is the pool.
  Result<Place> reserve(const std::string& tenant, const Amounts& demand, const Amounts& tenant_limit);
  // Whether the host would have room for `demand` if `freed` were given back.
  bool host_fits(const Amounts& demand, const Amounts& freed) const;
  // For what exists already, at start: never refused.
  Place adopt(const std::string& tenant, const Amounts& demand);
  // kExhausted with the word `quota` when `demand` is too much for the tenant.
  Result<void> check(const std::string& tenant, const Amounts& demand, const Amounts& tenant_limit) const;
  // A pool place becomes the tenant's: the host's count stays.
  Place convert(Place pool_place, const std::string& tenant);

  std::uint32_t held_by(const std::string& tenant) const;
  std::uint32_t held() const { return host_.sandboxes; }
  const Amounts& host() const { return host_; }
  const Amounts& host_limit() const { return host_limit_; }
  std::uint32_t highest(const std::string& tenant) const;  // the most the tenant ever held at one instant

 private:
  struct Count {
    Amounts now;
    std::uint32_t highest = 0;
  };
  void give_back(const std::string& tenant, const Amounts& held);

  Amounts host_limit_;
  Amounts host_;
  std::unordered_map<std::string, Count> tenants_;  // bounded by the number of tenants
};

}  // namespace atl::control
