// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/vault.h"

#include <sodium.h>

#include <algorithm>

#include "base/random.h"
#include "base/text.h"
#include "gateway/vault/sealing.h"
#include "http/json.h"

namespace atl::gateway::vault {
namespace {

using store::Connection;

constexpr std::size_t kMaxName = 128;
constexpr std::size_t kIdLength = 20;
constexpr std::string_view kSecretPrefix = "sec_";

std::string key_of(std::string_view tenant, std::string_view name) {
  return fmt::format("{}\n{}", tenant, name);
}

std::string value_place(const SecretRow& row) {
  return place({"value", row.tenant, row.name, row.id, fmt::format("{}", row.version)});
}
std::string tokens_place(const SecretRow& row) {
  return place({"tokens", row.tenant, row.name, row.id, fmt::format("{}", row.version)});
}
std::string master_place() { return place({"master"}); }

Result<void> check_size(const Locked& value) {
  if (value.size() <= Vault::kMaxValue) return success();
  return make_error(Code::kTooLarge, "a secret may have {} bytes", Vault::kMaxValue);
}

Error damaged(Error error) {
  return std::move(error).with_hint(
      "restore vault.db and its key from a backup, or move it away and set all secrets again");
}

Result<Config> config_of(const SecretRow& row) {
  TRY(auto text, http::parse_json(row.config));
  return parse_config(text.as_object());
}

}  // namespace

Result<std::string> canonical_name(std::string_view name) {
  auto out = to_lower(name);
  bool ok = !out.empty() && out.size() <= kMaxName &&
            out.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-") == out.npos;
  if (!ok) {
    return make_error(Code::kInvalid, "name: must have 1 to {} letters, digits, '.', '_' and '-'", kMaxName)
        .with_word("invalid_field");
  }
  if (out.starts_with(kSecretPrefix)) {
    return make_error(Code::kInvalid, "name: '{}' is the beginning of ids and of no name", kSecretPrefix)
        .with_word("invalid_field");
  }
  return out;
}

Result<std::unique_ptr<Vault>> Vault::open(const std::string& path, const Locked& key, const Clock& clock) {
  auto opened = store::Database::open(path, vault_migrations());
  if (!opened.ok() && opened.error().code() == Code::kCorrupt) return damaged(std::move(opened).error());
  if (!opened.ok()) return std::move(opened).error();
  std::unique_ptr<Vault> vault(new Vault(std::move(*opened), clock));
  TRY_VOID(vault->unlock(key));
  TRY_VOID(vault->load());
  return vault;
}

Result<void> Vault::unlock(const Locked& key) {
  // Two programs that refresh one token would lose it: the second cannot have the file.
  TRY(KeyRow row, db_->run_blocking([](Connection& db) -> Result<KeyRow> {
    TRY_VOID(db.exec("PRAGMA locking_mode = EXCLUSIVE"));
    return load_key(db);
  }));
  if (row.sealed.empty()) return make_new_key(key);
  auto opened = unseal(key, master_place(), row.sealed);
  if (!opened.ok()) {
    auto given = fingerprint(key);
    if (given == row.fingerprint) return damaged(std::move(opened).error());
    return make_error(Code::kDenied, "the vault was sealed with another key: it needs {}, and was given {}",
                      row.fingerprint, given)
        .with_word("vault_wrong_key")
        .with_hint(
            "give the key that the vault was made with; without it its values cannot be read by anybody");
  }
  data_key_ = std::move(*opened);
  key_fingerprint_ = row.fingerprint;
  return success();
}

Result<void> Vault::make_new_key(const Locked& key) {
  data_key_ = Locked(kKeyBytes);
  randombytes_buf(data_key_.bytes().data(), data_key_.size());
  KeyRow row{fingerprint(key), seal(key, master_place(), data_key_.reveal())};
  key_fingerprint_ = row.fingerprint;
  return db_->run_blocking([row](Connection& db) { return save_key(db, row); });
}

Result<void> Vault::load() {
  TRY(auto secrets, db_->run_blocking([](Connection& db) { return load_secrets(db); }));
  for (auto& one : secrets) {
    ids_.emplace(key_of(one.row.tenant, one.row.name), one.row.id);
    auto id = one.row.id;
    entries_.emplace(std::move(id), Entry{std::move(one.row), std::move(one.sealed), nullptr});
  }
  TRY(auto rows, db_->run_blocking([](Connection& db) { return load_bindings(db); }));
  for (const auto& row : rows) {
    TRY(Binding binding, read_binding(row));
    bindings_.push_back(std::move(binding));
  }
  TRY(auto services, db_->run_blocking([](Connection& db) { return load_services(db); }));
  for (const auto& row : services) {
    TRY(auto text, http::parse_json(row.rule));
    auto service = parse_service(text.as_object());
    if (!service.ok()) return std::move(service).error().context(row.name).with_code(Code::kCorrupt);
    service->tenant = row.tenant;
    services_.emplace(key_of(row.tenant, row.name), std::move(*service));
  }
  return success();
}

Result<Binding> Vault::read_binding(const BindingRow& row) const {
  TRY(auto text, http::parse_json(row.rule));
  auto binding = parse_binding(text.as_object());
  if (!binding.ok()) return std::move(binding).error().context(row.id).with_code(Code::kCorrupt);
  binding->id = row.id;
  binding->tenant = row.tenant;
  binding->secret = row.secret;
  return binding;
}

const Vault::Entry* Vault::find(std::string_view tenant, std::string_view id_or_name) const {
  auto text = to_lower(id_or_name);
  auto named = ids_.find(key_of(tenant, text));
  auto found = entries_.find(named != ids_.end() ? named->second : text);
  bool ours = found != entries_.end() && found->second.row.tenant == tenant;
  return ours ? &found->second : nullptr;
}

Error Vault::not_found(std::string_view name) const {
  return make_error(Code::kNotFound, "no secret '{}'", printable(name.substr(0, kMaxName)))
      .with_word("secret_not_found");
}

std::size_t Vault::count(std::string_view tenant) const {
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(),
                    [tenant](const auto& entry) { return entry.second.row.tenant == tenant; }));
}

Task<Result<SecretRow>> Vault::create(std::string tenant, NewSecret secret) {
  CO_TRY(auto name, canonical_name(secret.name));
  CO_TRY_VOID(check_size(secret.value));
  if (secret.config.empty()) secret.config["type"] = "plain";
  CO_TRY(Config config, parse_config(secret.config));
  CO_TRY_VOID(check_secret(config, secret.value.reveal()));
  if (count(tenant) >= kMaxSecrets)
    co_return make_error(Code::kExhausted, "a tenant may have {} secrets", kMaxSecrets);

  SecretRow row;
  row.id = std::string(kSecretPrefix) + random_base36(kIdLength);
  row.tenant = tenant;
  row.name = name;
  row.config = boost::json::serialize(write_config(config));
  row.metadata = std::move(secret.metadata);
  row.created_at = row.updated_at = clock_.now();
  auto sealed = seal(data_key_, value_place(row), secret.value.reveal());
  auto insert = [row, sealed](Connection& db) { return insert_secret(db, row, sealed); };
  CO_TRY_VOID(co_await db_->run(insert));
  ids_.emplace(key_of(tenant, name), row.id);
  entries_.emplace(row.id, Entry{row, std::move(sealed), nullptr});
  co_return row;
}

Task<Result<SecretRow>> Vault::rotate(std::string tenant, std::string id_or_name, Locked value,
                                      std::optional<model::StringMap> metadata) {
  const auto* entry = find(tenant, id_or_name);
  if (entry == nullptr) co_return not_found(id_or_name);
  CO_TRY_VOID(check_size(value));
  CO_TRY(Config config, config_of(entry->row));
  CO_TRY_VOID(check_secret(config, value.reveal()));

  SecretRow row = entry->row;
  ++row.version;
  row.updated_at = clock_.now();
  if (metadata) row.metadata = *std::move(metadata);
  auto sealed = seal(data_key_, value_place(row), value.reveal());
  auto update = [row, sealed](Connection& db) { return update_secret(db, row, sealed); };
  CO_TRY_VOID(co_await db_->run(update));
  auto found = entries_.find(row.id);
  // Two at once: both are on disk in the order of their jobs, and answers come in that order too.
  if (found != entries_.end()) found->second = Entry{row, std::move(sealed), nullptr};
  co_return row;
}

Task<Result<void>> Vault::remove(std::string tenant, std::string id_or_name) {
  const auto* entry = find(tenant, id_or_name);
  if (entry == nullptr) co_return not_found(id_or_name);
  auto row = entry->row;
  // Gone for requests first: none may use it while the disk is busy.
  entries_.erase(row.id);
  ids_.erase(key_of(row.tenant, row.name));
  std::erase_if(bindings_, [&row](const Binding& binding) { return binding.secret == row.id; });
  auto erase = [id = row.id](Connection& db) { return delete_secret(db, id); };
  co_return co_await db_->run(erase);
}

Result<SecretRow> Vault::info(std::string_view tenant, std::string_view id_or_name) const {
  const auto* entry = find(tenant, id_or_name);
  if (entry == nullptr) return not_found(id_or_name);
  return entry->row;
}

std::vector<SecretRow> Vault::list(std::string_view tenant) const {
  std::vector<SecretRow> out;
  for (const auto& [id, entry] : entries_) {
    if (entry.row.tenant == tenant) out.push_back(entry.row);
  }
  std::sort(out.begin(), out.end(), [](const SecretRow& a, const SecretRow& b) {
    return std::tie(a.created_at, a.id) < std::tie(b.created_at, b.id);
  });
  return out;
}

// Of two credentials for the same requests that would set the same, which one goes in would be chance.
Result<void> Vault::check_ambiguity(const Entry& entry, const Binding& binding) const {
  TRY(Config ours, config_of(entry.row));
  for (const Binding& other : bindings_) {
    if (other.secret == binding.secret || other.by_placeholder || binding.by_placeholder) continue;
    auto rival = entries_.find(other.secret);
    if (rival == entries_.end() || !equally_specific(binding, other)) continue;
    TRY(Config theirs, config_of(rival->second.row));
    if (!collide(ours.kind, theirs.kind)) continue;
    return make_error(Code::kConflict, "the credential '{}' sets the same in the same requests ({})",
                      rival->second.row.name, other.id)
        .with_word("binding_ambiguous")
        .with_hint("make one of them more specific (path, port, methods, sandboxes), or unbind the other");
  }
  return success();
}

Result<void> Vault::check_room(std::string_view tenant) const {
  auto own = std::count_if(bindings_.begin(), bindings_.end(),
                           [tenant](const Binding& binding) { return binding.tenant == tenant; }) +
             std::count(arriving_.begin(), arriving_.end(), tenant);
  if (static_cast<std::size_t>(own) >= kMaxBindings)
    return make_error(Code::kExhausted, "a tenant may have {} bindings", kMaxBindings);
  if (bindings_.size() + arriving_.size() >= kMaxAllBindings)
    return make_error(Code::kExhausted, "all tenants together may have {} bindings", kMaxAllBindings);
  return success();
}

Task<Result<Binding>> Vault::bind(std::string tenant, Binding binding) {
  const auto* entry = find(tenant, binding.secret);
  if (entry == nullptr) co_return not_found(binding.secret);
  CO_TRY_VOID(check_room(tenant));
  binding.id = "bnd_" + random_base36(kIdLength);
  binding.tenant = tenant;
  binding.secret = entry->row.id;
  if (binding.path_prefix.find(';') != std::string::npos)
    co_return make_error(Code::kInvalid, "path: must have no ';', which some servers cut off")
        .with_word("invalid_field");
  CO_TRY_VOID(check_ambiguity(*entry, binding));
  BindingRow row{binding.id, tenant, binding.secret, boost::json::serialize(write_binding(binding))};
  auto insert = [row](Connection& db) { return insert_binding(db, row); };
  arriving_.push_back(tenant);
  auto done = co_await db_->run(insert);
  arriving_.erase(std::find(arriving_.begin(), arriving_.end(), tenant));
  CO_TRY_VOID(std::move(done));
  bindings_.push_back(binding);
  co_return binding;
}

Task<Result<void>> Vault::unbind(std::string tenant, std::string id) {
  auto gone = std::erase_if(
      bindings_, [&](const Binding& binding) { return binding.id == id && binding.tenant == tenant; });
  if (gone == 0) co_return make_error(Code::kNotFound, "no binding '{}'", printable(id.substr(0, kMaxName)));
  auto erase = [id](Connection& db) { return delete_binding(db, id); };
  co_return co_await db_->run(erase);
}

Task<Result<Service>> Vault::set_service(std::string tenant, Service service) {
  auto key = key_of(tenant, service.name);
  if (!services_.contains(key) && services(tenant).size() >= kMaxServices)
    co_return make_error(Code::kExhausted, "a tenant may have {} services", kMaxServices);
  service.tenant = tenant;
  ServiceRow row{tenant, service.name, boost::json::serialize(write_service(service))};
  auto put = [row](Connection& db) { return put_service(db, row); };
  CO_TRY_VOID(co_await db_->run(put));
  services_.insert_or_assign(key, service);
  co_return service;
}

Task<Result<void>> Vault::remove_service(std::string tenant, std::string name) {
  // Gone for requests first.
  if (services_.erase(key_of(tenant, name)) == 0)
    co_return make_error(Code::kNotFound, "no service '{}'",
                         printable(std::string_view(name).substr(0, kMaxName)));
  auto erase = [tenant, name](Connection& db) { return delete_service(db, tenant, name); };
  co_return co_await db_->run(erase);
}

const Service* Vault::service(std::string_view tenant, std::string_view name) const {
  auto found = services_.find(key_of(tenant, name));
  return found == services_.end() ? nullptr : &found->second;
}

std::vector<Service> Vault::services(std::string_view tenant) const {
  std::vector<Service> out;
  for (const auto& [key, service] : services_) {
    if (service.tenant == tenant) out.push_back(service);
  }
  return out;
}

Result<CredentialPtr> Vault::use(std::string_view tenant, std::string_view id_or_name) {
  const auto* found = find(tenant, id_or_name);
  if (found == nullptr) return not_found(id_or_name);
  auto& entry = entries_.at(found->row.id);
  if (entry.ready) return entry.ready;
  auto opened = unseal(data_key_, value_place(entry.row), entry.sealed);
  if (!opened.ok()) return std::move(opened).error().context(fmt::format("the secret {}", entry.row.name));
  TRY(Config config, config_of(entry.row));
  entry.ready =
      std::make_shared<const Credential>(Credential{entry.row, std::move(config), std::move(*opened)});
  return entry.ready;
}

Task<Result<void>> Vault::save_tokens(CredentialPtr credential, Locked tokens) {
  auto sealed = seal(data_key_, tokens_place(credential->row), tokens.reveal());
  auto save = [row = credential->row, sealed](Connection& db) { return vault::save_tokens(db, row, sealed); };
  co_return co_await db_->run(save);
}

Task<Result<Locked>> Vault::load_tokens(CredentialPtr credential) {
  auto load = [id = credential->row.id](Connection& db) { return vault::load_tokens(db, id); };
  CO_TRY(auto sealed, co_await db_->run(load));
  if (sealed.empty()) co_return Locked();
  co_return unseal(data_key_, tokens_place(credential->row), sealed);
}

Task<Result<void>> Vault::change_key(Locked key) {
  KeyRow row{fingerprint(key), seal(key, master_place(), data_key_.reveal())};
  auto save = [row](Connection& db) { return save_key(db, row); };
  CO_TRY_VOID(co_await db_->run(save));
  key_fingerprint_ = row.fingerprint;
  co_return success();
}

Locked Vault::derive(std::string_view purpose) const { return subkey(data_key_, purpose); }

}  // namespace atl::gateway::vault
