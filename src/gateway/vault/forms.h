// SPDX-License-Identifier: Apache-2.0
//
// The texts by which a secret could be recognised in an answer.
#pragma once

#include <string_view>
#include <vector>

#include "base/secret.h"
#include "gateway/vault/vault.h"

namespace atl::gateway::vault {

// Shorter ones are not searched: they would be found everywhere.
inline constexpr std::size_t kShortestForm = 8;

// `text` as it is, URL-encoded (both cases of hexadecimal), JSON-escaped, in hexadecimal, and base64 in all
// three alignments (the part that is the same whatever stands around it, of both alphabets). No duplicates;
// none shorter than kShortestForm.
std::vector<Secret> forms(std::string_view text);

// Those of everything secret that `credential` puts into a request: its value or values, the pair of Basic,
// and `token` of a minted kind (null: none). A private key never goes out and is not among them.
std::vector<Secret> forms(const Credential& credential, const Locked* token = nullptr);

}  // namespace atl::gateway::vault
