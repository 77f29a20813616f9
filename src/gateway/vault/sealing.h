// SPDX-License-Identifier: Apache-2.0
//
// Sealing: how secrets lie on the disk. XChaCha20-Poly1305 with a random nonce before the sealed bytes.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/vault/locked.h"

namespace atl::gateway::vault {

inline constexpr std::size_t kKeyBytes = 32;

// What sealed bytes belong to, as one text that no other parts give. Bytes are opened only under the same
// one: a row that somebody has put in the place of another does not open.
std::string place(std::initializer_list<std::string_view> parts);

// The nonce, the sealed bytes and their tag.
std::string seal(const Locked& key, std::string_view place, std::string_view secret);
// kCorrupt when the bytes were not sealed with this key for this place, or have changed.
Result<Locked> unseal(const Locked& key, std::string_view place, std::string_view sealed);

// Another key out of `key`, for one purpose; tells nothing about `key`.
Locked subkey(const Locked& key, std::string_view purpose);
// Eight bytes in hexadecimal that tell keys apart and nothing else about them.
std::string fingerprint(const Locked& key);

}  // namespace atl::gateway::vault
