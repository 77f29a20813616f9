// SPDX-License-Identifier: Apache-2.0
//
// Vault: the secrets of all tenants. What it takes in comes out again only into requests that the gateway
// sends; no call of its own gives a value to an API.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "gateway/vault/binding.h"
#include "gateway/vault/kinds.h"
#include "gateway/vault/locked.h"
#include "gateway/vault/rows.h"
#include "gateway/vault/service.h"
#include "store/database.h"

namespace atl::gateway::vault {

using async::Task;

// One version of one secret, ready to use. Shared and immutable; a new version is a new one.
struct Credential {
  SecretRow row;
  Config config;
  Locked secret;
};
using CredentialPtr = std::shared_ptr<const Credential>;

// What a new secret is made from.
struct NewSecret {
  std::string name;
  Locked value;
  boost::json::object config;  // kinds.h; empty: plain
  model::StringMap metadata;
};

// Use from one loop. One process at a time has the file.
class Vault {
 public:
  static constexpr std::size_t kMaxValue = 64 * 1024;
  static constexpr std::size_t kMaxSecrets = 1000;        // of one tenant
  static constexpr std::size_t kMaxBindings = 1000;       // of one tenant
  static constexpr std::size_t kMaxAllBindings = 50'000;  // each request looks at all of them
  static constexpr std::size_t kMaxServices = 1000;       // of one tenant

  // Opens or makes `path` with the master key `key`. Blocking. A key that does not open it: kDenied, word
  // "vault_wrong_key", and the message tells both keys' fingerprints. kCorrupt when the file is damaged.
  static Result<std::unique_ptr<Vault>> open(const std::string& path, const Locked& key, const Clock& clock);

  // Writing. Names are lower-cased. Each answer is given after the commit; none has a value in it, also no
  // error.
  Task<Result<SecretRow>> create(std::string tenant, NewSecret secret);
  Task<Result<SecretRow>> rotate(std::string tenant, std::string id_or_name, Locked value,
                                 std::optional<model::StringMap> metadata);
  Task<Result<void>> remove(std::string tenant, std::string id_or_name);
  Result<SecretRow> info(std::string_view tenant, std::string_view id_or_name) const;
  std::vector<SecretRow> list(std::string_view tenant) const;  // oldest first

  // `binding.secret` is an id or a name of a secret of that tenant. The answer has the ids.
  Task<Result<Binding>> bind(std::string tenant, Binding binding);
  Task<Result<void>> unbind(std::string tenant, std::string id);
  // Of all tenants; each has its own in it. Valid until the next await.
  const std::vector<Binding>& bindings() const { return bindings_; }

  // A new service of that tenant, or one in place of that name.
  Task<Result<Service>> set_service(std::string tenant, Service service);
  Task<Result<void>> remove_service(std::string tenant, std::string name);
  // Null when the tenant has none of that name. Valid until the next await.
  const Service* service(std::string_view tenant, std::string_view name) const;
  std::vector<Service> services(std::string_view tenant) const;  // by name

  // The newest version, for a request that is about to be sent. Unsealed at its first use.
  Result<CredentialPtr> use(std::string_view tenant, std::string_view id_or_name);

  // What an exchange gave for this version of a secret (minter.h). On disk when the task ends.
  Task<Result<void>> save_tokens(CredentialPtr credential, Locked tokens);
  // Empty when there is none, or when it is of another version.
  Task<Result<Locked>> load_tokens(CredentialPtr credential);

  // Seals the vault with another master key. The old one opens it until the task ends, and the new one after.
  Task<Result<void>> change_key(Locked key);
  const std::string& key_fingerprint() const { return key_fingerprint_; }

  // A key for another use, the same for the life of the vault.
  Locked derive(std::string_view purpose) const;

 private:
  struct Entry {
    SecretRow row;
    std::string sealed;
    CredentialPtr ready;
  };
  Vault(std::unique_ptr<store::Database> db, const Clock& clock) : db_(std::move(db)), clock_(clock) {}
  Result<void> unlock(const Locked& key);
  Result<void> make_new_key(const Locked& key);
  Result<void> load();
  Result<Binding> read_binding(const BindingRow& row) const;
  Result<void> check_ambiguity(const Entry& entry, const Binding& binding) const;
  const Entry* find(std::string_view tenant, std::string_view id_or_name) const;
  Error not_found(std::string_view name) const;
  std::size_t count(std::string_view tenant) const;
  Result<void> check_room(std::string_view tenant) const;

  std::unique_ptr<store::Database> db_;
  const Clock& clock_;
  Locked data_key_;
  std::string key_fingerprint_;
  std::unordered_map<std::string, Entry> entries_;    // by id
  std::unordered_map<std::string, std::string> ids_;  // by "tenant\nname"
  std::vector<Binding> bindings_;
  std::vector<std::string> arriving_;        // tenants of bindings that are on their way to the disk
  std::map<std::string, Service> services_;  // by "tenant\nname"
};

// kInvalid when `name` is none: 1 to 128 of [a-z0-9._-] after lower-casing, not beginning with "sec_".
Result<std::string> canonical_name(std::string_view name);

}  // namespace atl::gateway::vault
