// SPDX-License-Identifier: Apache-2.0
//
// Where the key comes from that opens the vault.
#pragma once

#include <string>

#include "base/result.h"
#include "gateway/vault/locked.h"

namespace atl::gateway::vault {

// From a file of 32 bytes or 64 hexadecimal digits that only its owner may read; kDenied when others may. The
// file may be a credential that systemd has unsealed (with the TPM, if it was sealed so). Blocking.
Result<Locked> key_from_file(const std::string& path);
// Makes that file with a new random key, synced. kExists when there is one. Blocking.
Result<Locked> make_key_file(const std::string& path);
// From an environment variable of 64 hexadecimal digits, which is wiped from the environment of this process.
// Call it before there are threads. kNotFound when it is not set.
Result<Locked> key_from_environment(const char* name);

}  // namespace atl::gateway::vault
