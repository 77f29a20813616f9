// SPDX-License-Identifier: Apache-2.0
//
// Quota: how many sandboxes each tenant and the host hold right now. A place is reserved before anything is
// made and given back by the reservation's end, so the counters cannot drift from what exists.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/result.h"

namespace atl::control {

class Quota : public std::enable_shared_from_this<Quota> {
 public:
  explicit Quota(std::uint32_t host_limit) : host_limit_(host_limit) {}

  // Holds one place of the host and, when it has a tenant, one of the tenant. Move-only.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept = default;
    Place& operator=(Place&& other) noexcept {
      release();
      quota_ = std::move(other.quota_);
      tenant_ = std::move(other.tenant_);
      return *this;
    }
    ~Place() { release(); }
    void release() {
      if (auto quota = std::exchange(quota_, nullptr)) quota->give_back(tenant_);
    }
    explicit operator bool() const { return quota_ != nullptr; }

   private:
    friend class Quota;
    Place(std::shared_ptr<Quota> quota, std::string tenant)
        : quota_(std::move(quota)), tenant_(std::move(tenant)) {}
    std::shared_ptr<Quota> quota_;
    std::string tenant_;
  };

  // kExhausted with the word `quota` when the tenant has `tenant_limit` already; kUnavailable with the word
  // `capacity` when the host is full. An empty tenant is the pool.
  Result<Place> reserve(const std::string& tenant, std::uint32_t tenant_limit);
  // For what exists already, at start: never refused.
  Place adopt(const std::string& tenant);
  // kExhausted with the word `quota` when the tenant has `tenant_limit` already.
  Result<void> check(const std::string& tenant, std::uint32_t tenant_limit) const;
  // A pool place becomes the tenant's: the host's count stays.
  Place convert(Place pool_place, const std::string& tenant);

  std::uint32_t held_by(const std::string& tenant) const;
  std::uint32_t held() const { return host_; }
  std::uint32_t host_limit() const { return host_limit_; }
  std::uint32_t highest(const std::string& tenant) const;  // the most the tenant ever held at one instant

 private:
  struct Count {
    std::uint32_t now = 0;
    std::uint32_t highest = 0;
  };
  void take(const std::string& tenant);
  void give_back(const std::string& tenant);

  std::uint32_t host_limit_;
  std::uint32_t host_ = 0;
  std::unordered_map<std::string, Count> tenants_;  // bounded by the number of tenants
};

}  // namespace atl::control
