// SPDX-License-Identifier: Apache-2.0
#include "control/identity.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/bytes.h"
#include "base/log.h"
#include "base/random.h"
#include "store/tenants.h"
#include "sys/fd.h"

namespace atl::control {
namespace {

// Replaces the file in one step, so that a reader sees the whole key or none.
Result<void> write_private_file(const std::string& path, const std::string& text) {
  std::string temporary = path + ".new";
  sys::Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return Error::from_errno(errno, "create " + temporary);
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return Error::from_errno(errno, "write " + temporary);
  }
  if (::fsync(fd.get()) != 0) return Error::from_errno(errno, "sync " + temporary);
  if (::rename(temporary.c_str(), path.c_str()) != 0) return Error::from_errno(errno, "rename " + temporary);
  return {};
}

}  // namespace

Result<void> Identity::load() {
  TRY(tenants_, db_.run_blocking([](store::Connection& db) { return store::load_tenants(db); }));
  TRY(auto keys, db_.run_blocking([](store::Connection& db) { return store::load_keys(db); }));
  for (auto& key : keys) keys_.emplace(key.hash, key);
  return {};
}

Identity::NewKey Identity::make_key(const std::string& tenant, const std::string& name,
                                    model::Role role) const {
  NewKey made;
  std::string text = "e2b_" + random_hex(20);
  made.row.id = random_uuid();
  made.row.tenant = tenant;
  made.row.name = name;
  made.row.prefix = text.substr(0, 10);
  made.row.hash = sha256(text);
  made.row.role = role;
  made.row.created_at = clock_.now();
  made.text = Secret(std::move(text));
  return made;
}

// The file is written first: a crash in between leaves a file with a key that does not count yet, and the
// next start replaces it. The other way round the only admin key could be lost.
Result<void> Identity::bootstrap(const std::string& path) {
  if (!tenants_.empty()) return {};
  model::Tenant tenant{random_uuid(), "default", {}, clock_.now(), {}};
  NewKey key = make_key(tenant.id, "bootstrap", model::Role::kAdmin);
  TRY_VOID(write_private_file(path, key.text.reveal() + "\n"));
  TRY_VOID(db_.run_blocking([tenant, row = key.row](store::Connection& db) -> Result<void> {
    TRY_VOID(store::insert_tenant(db, tenant));
    return store::insert_key(db, row);
  }));
  tenants_.push_back(tenant);
  keys_.emplace(key.row.hash, key.row);
  log::info("made the first tenant and an admin key", {{"file", path}});
  return {};
}

std::optional<Principal> Identity::authenticate(std::string_view key) const {
  auto found = keys_.find(sha256(key));
  if (found == keys_.end()) return std::nullopt;
  return Principal{found->second.id, found->second.tenant, found->second.role};
}

Task<Result<Identity::NewKey>> Identity::create_key(std::string tenant, std::string name, model::Role role) {
  if (keys(tenant).size() >= kMaxKeysPerTenant) {
    co_return make_error(Code::kExhausted, "the tenant has {} keys already", kMaxKeysPerTenant)
        .with_word("quota")
        .with_hint("revoke keys that are no longer used");
  }
  NewKey made = make_key(tenant, name, role);
  auto job = [row = made.row](store::Connection& db) { return store::insert_key(db, row); };
  CO_TRY_VOID(co_await db_.run(std::move(job)));
  keys_.emplace(made.row.hash, made.row);
  co_return made;
}

Task<Result<void>> Identity::revoke_key(std::optional<std::string> tenant, std::string id) {
  auto found = std::find_if(keys_.begin(), keys_.end(), [&](const auto& entry) {
    return entry.second.id == id && (!tenant || entry.second.tenant == *tenant);
  });
  if (found == keys_.end()) co_return make_error(Code::kNotFound, "there is no key '{}'", id);
  // It stops working before the store is asked: a revocation must not wait for a disk.
  keys_.erase(found);
  auto job = [id](store::Connection& db) { return store::delete_key(db, id); };
  co_return co_await db_.run(std::move(job));
}

std::vector<model::ApiKey> Identity::keys(const std::string& tenant) const {
  std::vector<model::ApiKey> out;
  for (const auto& [hash, key] : keys_) {
    if (key.tenant == tenant) out.push_back(key);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::tie(a.created_at, a.id) < std::tie(b.created_at, b.id);
  });
  return out;
}

Task<Result<model::Tenant>> Identity::create_tenant(std::string name, model::Amounts limit,
                                                    model::IsolationRule isolation) {
  model::Tenant tenant{random_uuid(), std::move(name), limit, clock_.now(), isolation};
  auto job = [tenant](store::Connection& db) { return store::insert_tenant(db, tenant); };
  CO_TRY_VOID(co_await db_.run(std::move(job)));
  tenants_.push_back(tenant);
  co_return tenant;
}

Task<Result<model::Tenant>> Identity::set_isolation(std::string id, model::IsolationRule isolation) {
  auto entry = [this, &id] {
    return std::find_if(tenants_.begin(), tenants_.end(),
                        [&id](const model::Tenant& tenant) { return tenant.id == id; });
  };
  auto found = entry();
  if (found == tenants_.end()) co_return make_error(Code::kNotFound, "there is no tenant '{}'", id);
  // Memory first, so that two changes at the same time do not take each other away.
  model::IsolationRule before = std::exchange(found->isolation, isolation);
  auto job = [id, isolation](store::Connection& db) {
    return store::save_tenant_isolation(db, id, isolation);
  };
  auto saved = co_await db_.run(std::move(job));
  found = entry();
  if (!saved && found->isolation == isolation) found->isolation = before;
  CO_TRY_VOID(std::move(saved));
  co_return *found;
}

const model::Tenant* Identity::find_tenant(std::string_view id) const {
  for (const auto& tenant : tenants_) {
    if (tenant.id == id) return &tenant;
  }
  return nullptr;
}

}  // namespace atl::control
