// SPDX-License-Identifier: Apache-2.0
//
// Exchange: the requests to token endpoints, and what their answers mean. OAuth 2 (RFC 6749, 7636, 8628,
// 8707) and GitHub's Apps. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/secret.h"
#include "gateway/vault/vault.h"

namespace atl::gateway::vault {

// A POST to a token endpoint. Everything in it may be secret.
struct TokenRequest {
  std::string url;  // https
  std::vector<std::pair<std::string, Secret>> headers;
  Secret body;
};
struct TokenAnswer {
  int status = 0;
  Secret body;
};

// What an endpoint gave.
struct Tokens {
  Secret access;
  Secret refresh;  // may be empty
  WallTime expires;
};

// `credential` is of OAuthKind.
TokenRequest ask_by_client(const Credential& credential);
TokenRequest ask_by_refresh(const Credential& credential, std::string_view refresh_token);
TokenRequest ask_by_code(const Credential& credential, std::string_view code, std::string_view verifier);
TokenRequest ask_for_device_code(const Credential& credential);
TokenRequest ask_by_device_code(const Credential& credential, std::string_view device_code);
// `credential` is of GithubAppKind. kInvalid when its key cannot sign.
Result<TokenRequest> ask_github(const Credential& credential, WallTime now);

// `credential` is of JwtKind: signed here, for no endpoint. kInvalid when its key cannot sign.
Result<Tokens> sign_own(const Credential& credential, WallTime now);

// kDenied, word "oauth_<error>", when the endpoint refuses for good ("oauth_invalid_grant": authorize again);
// kUnavailable when it may do better later, or when the answer makes no sense. No error has anything of the
// answer in it but that word.
Result<Tokens> read_tokens(const TokenAnswer& answer, WallTime now);

// What a person does to authorize a device.
struct DeviceCode {
  Secret device_code;
  std::string user_code;
  std::string verification_uri;
  int interval_s = 5;
  WallTime expires;
};
Result<DeviceCode> read_device_code(const TokenAnswer& answer, WallTime now);

// Where a person's browser goes, with PKCE (S256).
std::string authorize_url(const OAuthKind& kind, std::string_view state, std::string_view verifier);

// As one text, to be sealed.
Locked pack(const Tokens& tokens);
Result<Tokens> unpack(const Locked& packed);

}  // namespace atl::gateway::vault
