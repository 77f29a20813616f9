// SPDX-License-Identifier: Apache-2.0
//
// Identity: tenants and API keys, in memory and in the store. Use from the control loop.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "model/record.h"
#include "store/database.h"

namespace atl::control {

using async::Task;

// Who a request comes from.
struct Principal {
  std::string key;
  std::string tenant;
  model::Role role = model::Role::kMember;
  bool admin() const { return role == model::Role::kAdmin; }
};

class Identity {
 public:
  Identity(store::Database& db, Clock& clock) : db_(db), clock_(clock) {}
  // Reads everything; blocking, once at start.
  Result<void> load();
  // With no tenant yet: makes tenant `default` and an admin key, and writes the key to `path` (0600).
  // Blocking.
  Result<void> bootstrap(const std::string& path);

  // nullopt when the key is unknown. Keys are looked up by their hash, so timing tells nothing about their
  // text.
  std::optional<Principal> authenticate(std::string_view key) const;

  struct NewKey {
    model::ApiKey row;
    Secret text;  // shown once
  };
  Task<Result<NewKey>> create_key(std::string tenant, std::string name, model::Role role);
  // kNotFound when `tenant` has no such key; without a tenant, when nobody has it.
  Task<Result<void>> revoke_key(std::optional<std::string> tenant, std::string id);
  std::vector<model::ApiKey> keys(const std::string& tenant) const;

  Task<Result<model::Tenant>> create_tenant(std::string name, model::Amounts limit,
                                            model::IsolationRule isolation = {});
  // For sandboxes that are made from now on. kNotFound when there is no such tenant.
  Task<Result<model::Tenant>> set_isolation(std::string tenant, model::IsolationRule isolation);
  const std::vector<model::Tenant>& tenants() const { return tenants_; }
  const model::Tenant* find_tenant(std::string_view id) const;

 private:
  static constexpr std::size_t kMaxKeysPerTenant = 1000;
  NewKey make_key(const std::string& tenant, const std::string& name, model::Role role) const;

  store::Database& db_;
  Clock& clock_;
  std::vector<model::Tenant> tenants_;
  std::unordered_map<std::string, model::ApiKey> keys_;  // by hash
};

}  // namespace atl::control
