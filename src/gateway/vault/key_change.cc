// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/key_change.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/log.h"
#include "gateway/vault/master_key.h"
#include "gateway/vault/sealing.h"
#include "sys/files.h"

namespace atl::gateway::vault {
namespace {

std::string next_of(const std::string& key_file) { return key_file + ".next"; }

// The vault is sealed with the new key: that of the file is of no use any more.
Result<void> adopt(const std::string& key_file) {
  if (std::rename(next_of(key_file).c_str(), key_file.c_str()) != 0)
    return Error::from_errno(errno, "put the new key of the vault to " + key_file);
  return sys::sync_path(std::filesystem::path(key_file).parent_path().string());
}

// One that no vault is sealed with.
void drop_next(const std::string& key_file) { std::remove(next_of(key_file).c_str()); }

}  // namespace

Result<std::unique_ptr<Vault>> open_with_key_file(const std::string& path, const std::string& key_file,
                                                  const Clock& clock) {
  auto key = key_from_file(key_file);
  if (!key.ok() && key.error().code() == Code::kNotFound) {
    log::info("made a new master key for secrets", {{"file", key_file}});
    key = make_key_file(key_file);
  }
  if (!key.ok()) return std::move(key).error();
  auto vault = Vault::open(path, *key, clock);
  if (vault.ok()) drop_next(key_file);
  if (vault.ok() || vault.error().word() != "vault_wrong_key") return vault;
  auto next = key_from_file(next_of(key_file));
  if (!next.ok()) return vault;
  auto changed = Vault::open(path, *next, clock);
  if (!changed.ok()) return vault;
  log::info("finished a change of the master key that was broken off", {{"file", key_file}});
  TRY_VOID(adopt(key_file));
  return changed;
}

Task<Result<void>> change_key_file(Vault& vault, std::string key_file) {
  auto left = key_from_file(next_of(key_file));
  bool present = left.ok() || left.error().code() != Code::kNotFound;
  bool ours = left.ok() && fingerprint(*left) == vault.key_fingerprint();
  if (present && !ours) {
    // Whether the vault is sealed with that one is found out when it is opened.
    co_return make_error(Code::kConflict, "a change of the master key has failed before")
        .with_word("key_changing")
        .with_hint("start the gateway again, and then change the key");
  }
  if (present) CO_TRY_VOID(adopt(key_file));  // the last step of a change has failed
  auto key = make_key_file(next_of(key_file));
  if (!key.ok()) {
    drop_next(key_file);
    co_return std::move(key).error();
  }
  CO_TRY_VOID(co_await vault.change_key(std::move(*key)));
  co_return adopt(key_file);
}

}  // namespace atl::gateway::vault
