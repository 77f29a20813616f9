// SPDX-License-Identifier: Apache-2.0
//
// Signed JSON Web Tokens (RFC 7519, RFC 7518, RFC 8037): made here, never read.
#pragma once

#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "base/result.h"
#include "base/secret.h"

namespace atl::gateway::vault {

struct JwtHeader {
  std::string algorithm;  // "RS256", "ES256", "EdDSA", "HS256"
  std::string key_id;     // may be empty
};

// `key` is a private key in PEM, or the raw key for HS256. kInvalid when the key is of another kind than the
// algorithm wants.
Result<Secret> sign_jwt(const JwtHeader& header, const boost::json::object& claims, std::string_view key);

}  // namespace atl::gateway::vault
