// SPDX-License-Identifier: Apache-2.0
//
// Changing the master key of a vault that is open, without a moment in which no file has the key that opens
// it: the new one lies beside the old one (<file>.next) until the vault is sealed with it.
#pragma once

#include <memory>
#include <string>

#include "gateway/vault/vault.h"

namespace atl::gateway::vault {

// Opens the vault with the key of `key_file`, which is made when there is none, and finishes a change of the
// key that was broken off at any point. Errors as of Vault::open() and key_from_file(). Blocking.
Result<std::unique_ptr<Vault>> open_with_key_file(const std::string& path, const std::string& key_file,
                                                  const Clock& clock);

// Seals the vault with a new random key, which takes the place of the old one in `key_file`. Whatever fails
// or dies in the middle, one of the two files has the key. Call once at a time.
Task<Result<void>> change_key_file(Vault& vault, std::string key_file);

}  // namespace atl::gateway::vault
