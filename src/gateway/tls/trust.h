// SPDX-License-Identifier: Apache-2.0
//
// What a sandbox trusts: its own authority and the public roots of the host. Most variables that tools read
// replace their roots, so one file must hold both.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace atl::gateway {

// The host's public roots in PEM. Blocking; some 200 KiB. kNotFound when the host has none.
Result<std::string> read_public_roots();
// The text of the file that SSL_CERT_FILE and the like name inside.
std::string trust_bundle(std::string_view authority_pem, std::string_view public_roots);
// The same as a key store of Java (format JKS, no password needed to read it), which cannot read PEM.
// kCorrupt when a certificate cannot be read.
Result<std::string> java_trust_store(std::string_view bundle, WallTime now);
// JKS ends with a digest under this word; Java checks it only when it is told the word.
inline constexpr std::string_view kJavaPassword = "changeit";

}  // namespace atl::gateway
